"""A substitute for a runner: it answers each run at once with an invented time.

Its first argument is the median in seconds; with ``inf`` a run never ends. Each process has a
random effect of its own. With a second argument, each run fails for this reason.
"""

from __future__ import annotations

import math
import os
import random
import shlex
import sys
import time
from pathlib import Path

from tests.results.samples import timing
from workloads import catalog
from workloads.declare.workload import infos_with_code
from workloads.protocol import messages, wire
from workloads.protocol.process import write_whole
from workloads.protocol.results import Environment, RunResult, TorchDevice

assert catalog

ROOT = Path(__file__).resolve().parents[2]

ENVIRONMENT = Environment(
    python="3.12.3",
    executable=sys.executable,
    torch="2.13.0",
    cuda=None,
    cudnn=None,
    cpu="a CPU",
    cpus_usable=2,
    threads=2,
    interop_threads=1,
    malloc="glibc",
    variables={},
    devices=(TorchDevice("cpu", "a CPU"),),
    flags=(),
)


def made(folder: Path, median: float = 1e-3, reason: str = "") -> str:
    """Create a Python for the program's ``--python`` that starts this runner.

    Args:
        folder: the folder for it.
        median: seconds per call; infinite if a run never ends.
        reason: why each run fails; empty if none does.
    """
    # The runner itself, which starts often, needs nothing of it.
    from tests.children.sessions import script

    words = [sys.executable, "-m", __name__, str(median), *([reason] if reason else [])]
    # A script of the catalogue is the only thing that a Python is given alone.
    alone = '[ $# -gt 1 ] || { echo "printed by the script"; exit; }'
    return script(folder, f"{alone}\ncd {shlex.quote(str(ROOT))}\nexec {shlex.join(words)}")


def serve(median: float, reason: str | None = None) -> None:
    told = median * random.Random(os.getpid()).uniform(0.999, 1.001)
    say(messages.Hello(messages.VERSION, os.getpid(), "3", sys.executable, infos_with_code()))
    say(messages.Ready(ENVIRONMENT, 0.1))
    for line in sys.stdin.buffer:
        try:
            request = wire.decode(line, (messages.Run,))
        except wire.WireError:
            continue  # another request, or the modules that a runner on another host is sent
        if math.isfinite(median):
            now = time.time()
            result = RunResult(
                request.id,
                request.workload,
                request.device,
                request.parameters,
                request.flags,
                "failed" if reason else "ok",
                reason=reason,
                time=None if reason else timing([told] * 7, now),
                started_at=now,
                ended_at=now + 1e-3,
            )
            say(messages.Finished(result))


def say(event: messages.Event) -> None:
    write_whole(1, wire.encode(event))


if __name__ == "__main__":
    serve(float(sys.argv[1]), *sys.argv[2:])
