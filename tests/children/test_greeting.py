"""The catalogue arrives before the runner imports torch, however little a pipe takes at once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workloads import ENTRY
from workloads.protocol import wire
from workloads.protocol.messages import EVENTS, Hello

NEVER_IMPORTED = "import threading\nthreading.Event().wait()\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of a chosen size")
def test_the_greeting_arrives_whole_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(NEVER_IMPORTED)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = (sys.executable, ENTRY, "workloads", "serve")
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writing, env=environment) as runner,
        os.fdopen(reading, "rb") as events,
    ):
        os.close(writing)
        try:
            greeting = wire.decode(events.readline(), EVENTS)
        finally:
            runner.kill()
    assert isinstance(greeting, Hello)
    assert greeting.workloads
