"""Real torch processes beside a session: found, split, followed to their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

from tests.children.sessions import session_with, until
from tui.devices.memory import ProcessMemory
from tui.devices.memory.model import get_value
from tui.devices.memory.others import account_of, other_processes, unplaced
from tui.devices.state.watched_processes import Allocator
from tui.runs.session.session import Session

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(60)]

MIB = 2**20
LAST = f"cuda:{torch.cuda.device_count() - 1}"
TRAINING = """
import os, sys, torch
device, mib = sys.argv[1], int(sys.argv[2])
held = [torch.empty(mib << 20, dtype=torch.uint8, device=device)]
spare = torch.empty(64 << 20, dtype=torch.uint8, device=device)
del spare
for line in sys.stdin:
    exec(line)
"""
TOO_MUCH = """
try:
    torch.empty(2**50, dtype=torch.uint8, device=device)
except torch.OutOfMemoryError:
    pass
"""


STARTER = """
import os, subprocess, sys
orders = os.open(sys.argv[1], os.O_RDWR)
process = subprocess.Popen(sys.argv[2:], stdin=orders, stdout=2, start_new_session=True)
print(process.pid)
"""


class Training:
    """A process that uses torch as if nobody looked, and does what it is told.

    It is no descendant of ours: those would count as this program's own.
    """

    def __init__(self, orders: Path, device: str, mib: int, **variables: str) -> None:
        os.mkfifo(orders)
        words = (orders, sys.executable, "-c", TRAINING, device, str(mib))
        started = subprocess.run(
            [sys.executable, "-c", STARTER, *words],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, **variables},
        )
        self.pid = int(started.stdout)
        self._orders = os.open(orders, os.O_RDWR)

    def do(self, line: str) -> None:
        os.write(self._orders, f"exec({line!r})\n".encode())

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        os.close(self._orders)


@contextmanager
def training(orders: Path, device: str, mib: int, **variables: str) -> Iterator[Training]:
    found = Training(orders, device, mib, **variables)
    try:
        yield found
    finally:
        found.close()


def allocator(session: Session, pid: int) -> Allocator | None:
    known = session.state.machine.allocators
    return (
        next((each for each in known.allocators() if each.process.pid == pid), None)
        if known
        else None
    )


def split(session: Session, pid: int) -> ProcessMemory | None:
    """Return the GPU account's current part of a process."""
    state = session.state
    if state.machine.allocators is None or state.machine.sample is None:
        return None
    found = (
        other
        for view in state.machine.devices
        for other in other_processes(
            state.machine.allocators, view, state.machine.worker_pid, state.machine.sample.at
        )
    )
    return next((other for other in found if other.pid == pid), None)


def is_split(session: Session, pid: int, mib: int) -> Callable[[], bool]:
    def holds() -> bool:
        other = split(session, pid)
        return other is not None and bool(other.parts) and get_value(other.allocated) == mib * MIB

    return holds


def has_failed(session: Session, pid: int) -> bool:
    other = split(session, pid)
    return other is not None and get_value(other.ooms) == 1


async def test_trainings_are_split_grow_fail_end_and_run_something_else(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ranks = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
        first = stack.enter_context(training(tmp_path / "1", "cuda:0", 300))
        second = stack.enter_context(training(tmp_path / "2", LAST, 200, **ranks))
        third = stack.enter_context(training(tmp_path / "3", "cuda:0", 100))
        async with session_with(interval=0.3) as session:
            session.watch_torch(True)
            for each, mib in ((first, 300), (second, 200), (third, 100)):
                await until(session, is_split(session, each.pid, mib))
            other = split(session, first.pid)
            assert other is not None
            # What is cached and the context make up NVML's figure.
            sizes = dict(other.parts)
            assert sizes["other_cached"] == 64 * MIB
            assert sum(sizes.values()) == get_value(other.process)
            ranked = allocator(session, second.pid)
            assert ranked is not None
            assert (ranked.process.rank, ranked.process.launcher) == (1, "torchrun")
            first.do("held.append(torch.empty(500 << 20, dtype=torch.uint8, device=device))")
            await until(session, is_split(session, first.pid, 800))
            first.do(TOO_MUCH)
            await until(session, lambda: has_failed(session, first.pid))
            found = allocator(session, first.pid)
            assert found is not None
            view = next(
                each for each in session.state.machine.devices if each.key == found.placed.id
            )
            peak = session.state.machine.history.sampled_peak(view.key)
            sample = session.state.machine.sample
            assert sample is not None
            gauge = account_of(found, view, sample, peak, sample.at)
            assert sum(get_value(part.bytes) or 0 for part in gauge.known) == get_value(gauge.total)
            assert "out of memory 1 time since the process began" in gauge.warnings
            first.kill()
            await until(session, lambda: bool(found.ended))
            assert found.placed.id == view.key
            before = allocator(session, third.pid)
            assert before is not None
            third.do(
                "os.execv(sys.executable, [sys.executable, '-c', 'import sys; sys.stdin.read()'])"
            )
            await until(session, lambda: bool(before.ended))
            # NVML may list it as long as the driver keeps its context; torch is not in it.
            other = split(session, third.pid)
            assert other is None or other.parts == ()
            again = allocator(session, second.pid)
            assert again is ranked
            assert get_value(unplaced(ranked, sample.at).allocated) == 200 * MIB
