"""Read files in a forked child, as what nobody trusts is to be read, and say what came of it."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.summary import check
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.model.snapshot import Action, Snapshot, SnapshotError
from tui.snapshots.read import limits
from tui.snapshots.read.load import load

ROOT = Path(__file__).parents[2]
HARMLESS = frozenset(
    ("sys._getframe", "object.__getattr__", "array.__new__", "builtins.id", "sys.excepthook")
)
"""Events of the program itself. CPython calls the last when no memory is left for a bytearray: it
gives up a half-made one and prints a line to standard error, which the owner of the child keeps."""


SPARE = 8 << 20
"""Bytes that the child keeps to tell its outcome with, where a file has taken all others: what was
read of it lies in cycles of the error's frames until a collection."""


@dataclass(frozen=True)
class Outcome:
    """What reading one file came to.

    Attributes:
        line: the error; empty where there is a result.
        died: number of the signal that ended the child; 0 where it ended by itself.
        crash: a traceback, if something else than SnapshotError came out.
        seconds: how long it took.
        grown: bytes by which the child's resident memory grew at most since it was forked.
        events: what the interpreter's audit hook saw while reading: imports, opened files, code.
    """

    line: str = ""
    died: int = 0
    crash: str = ""
    seconds: float = 0.0
    grown: int = 0
    events: tuple[str, ...] = ()


def read(files: Iterable[bytes], allowed: int, timeout: float) -> list[Outcome]:
    """Read files one after the other in one child, restricted in memory.

    Args:
        files: their contents; what follows one that kills the child is not read.
        allowed: bytes that the child may take.
        timeout: seconds for each file; after that it is killed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(files, allowed, writing)
    os.close(writing)
    try:
        return _outcomes(pid, reading, timeout)
    finally:
        os.close(reading)


def read_alone(content: bytes, allowed: int, timeout: float) -> Outcome:
    """Read a file in a child of a fresh interpreter, where what it takes is to be measured.

    A child that is forked from the tests has their address space, of which much is mapped and not
    used: it can take that without being refused.

    Args:
        content: of the file.
        allowed: bytes that the child may take.
        timeout: seconds; after that it is killed.
    """
    command = [sys.executable, "-m", "tests.snapshots.apart", str(allowed), str(timeout)]
    done = subprocess.run(command, input=content, capture_output=True, check=True, cwd=ROOT)
    (line,) = done.stdout.splitlines()
    return _told(line)


def _told(line: bytes) -> Outcome:
    fields = json.loads(line)
    return Outcome(**{**fields, "events": tuple(fields["events"])})


def _outcomes(pid: int, reading: int, timeout: float) -> list[Outcome]:
    outcomes, left = [], b""
    while True:
        ready, _, _ = select.select([reading], [], [], timeout)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        piece = os.read(reading, 1 << 16) if ready else b""
        *lines, left = (left + piece).split(b"\n")
        outcomes += [_told(line) for line in lines]
        if not piece:
            break
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        outcomes.append(Outcome(died=os.WTERMSIG(status)))
    return outcomes


def _child(files: Iterable[bytes], allowed: int, writing: int) -> None:
    code = 1
    try:
        # A death by signal is one of the outcomes; its stack on the terminal is not wanted.
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        spare = [bytearray(SPARE)]
        limits.restrict(limits.Estimate(0, 0, None, allowed, None))
        before = _peak()
        events: list[str] = []
        armed = [False]
        sys.addaudithook(_hook(events, armed))
        for content in files:
            outcome = _one(content, events, armed, before, spare)
            os.write(writing, json.dumps(asdict(outcome)).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _one(
    content: bytes, events: list[str], armed: list[bool], before: int, spare: list[bytearray]
) -> Outcome:
    events.clear()
    line = crash = ""
    stream = cast(BinaryIO, BytesIO(content))
    began = time.perf_counter()
    armed[0] = True
    try:
        _look(load(stream, available=1 << 40))
    except SnapshotError as error:
        spare.clear()
        line = str(error)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is to be told
        spare.clear()
        armed[0] = False
        crash = traceback.format_exc()
    finally:
        armed[0] = False
    seconds = time.perf_counter() - began
    return Outcome(line, 0, crash, seconds, _peak() - before, tuple(events[:10]))


def _look(snapshot: Snapshot) -> None:
    for device in Analysis(snapshot).devices.values():
        assert device.faults == check(device.device)
        device.summary()
        device.state()
        for event, action in enumerate(device.trace.action):
            if action == Action.OOM:
                judge(device, event)


def _hook(events: list[str], armed: list[bool]) -> Callable[[str, tuple[object, ...]], None]:
    def hook(event: str, _arguments: tuple[object, ...]) -> None:
        if armed[0] and event not in HARMLESS:
            events.append(event)

    return hook


def assert_safe(outcome: Outcome) -> None:
    """Assert a result or one short line, with nothing opened, imported or run."""
    assert not outcome.died, f"died of {signal.Signals(outcome.died).name}"
    assert not outcome.crash, outcome.crash
    assert not outcome.events
    assert outcome.line.isprintable()
    assert len(outcome.line) < 400


if __name__ == "__main__":
    for each in read([sys.stdin.buffer.read()], int(sys.argv[1]), float(sys.argv[2])):
        print(json.dumps(asdict(each)))
