"""Keys and Ctrl-C over hosts that do not answer: neither waits for a host."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.hosts.conftest import Boxes, boxes, scripted_library, scripted_nvml
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT
from tests.waiting import until

__all__ = ["boxes", "scripted_library", "scripted_nvml"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
NAMES = ("LD_LIBRARY_PATH", "SCRIPTED_NVML", "SCRIPTED_NVML_LOG")


@VARIANT
def test_keys_act_while_a_host_is_stopped(boxes: Boxes, scripted_nvml: ScriptedNvml) -> None:
    """A stopped host answers later than any link: no time needs to be measured."""
    variables = scripted_nvml.env(busy_box(2))
    boxes.add("gpu1", variables={key: variables[key] for key in NAMES})
    words = ("--no-here", "--host", "gpu1", "--transport", boxes.transport)
    with Terminal((*PROGRAM, *words), 100, 30) as terminal:
        terminal.until_shows("▸ gpu1:0", "gpu1:1", "Memory   gpu1:0")
        children = [each for each in terminal.family() if each.pid != terminal.process.pid]
        for child in children:
            child.send_signal(signal.SIGSTOP)
        until(lambda: _are_stopped(children))
        try:
            terminal.keys("d")
            terminal.until_shows("▸ gpu1:1")
            terminal.keys("2")
            terminal.until_shows("━ Memory", "of 140.4 GiB")
            terminal.keys("3")
            terminal.until_shows("━ Snapshot", "Open the example snapshot")
            terminal.keys("4")
            terminal.until_shows("Processes on gpu1")
            terminal.keys("\r")
            terminal.until_shows("Process 40000")
            terminal.keys("\x1b")
            terminal.until_shows("Processes on gpu1")
            terminal.keys("5")
            terminal.until_shows("━ Watched runs")
            terminal.keys("6")
            terminal.until_shows("━ Results")
            terminal.keys("1")
            terminal.until_shows("▸ gpu1:", "Memory   gpu1:")
            for key in ("\x1b[Z", "\x1b[Z", "\r"):
                terminal.keys(key)
            terminal.until_shows("VBIOS")
        finally:
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.send_signal(signal.SIGCONT)


def _are_stopped(processes: list[psutil.Process]) -> bool:
    return {each.status() for each in processes} == {psutil.STATUS_STOPPED}


@VARIANT
def test_ctrl_c_names_the_hosts_that_were_not_connected(tmp_path: Path) -> None:
    started = tmp_path / "started"
    transport = f"sh -c 'touch {started}; exec sleep 1000' {{host}}"
    words = ("run", "matmul", "--quick", "--host", "gpu1", "--transport", transport)
    with subprocess.Popen((*PROGRAM, *words), stdout=subprocess.PIPE, text=True) as command:
        until(started.exists)
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate(timeout=60)
    assert output == (
        "nothing ran; 1 host of 1 cannot run\n\ngpu1  interrupted before it was connected\n"
    )
    assert command.returncode == 130
