"""Runs that end badly, through the real session: what is said, what is kept, what is left behind.

In each the words say what happened, what was measured is kept, the next run starts clean, and the
number of processes is what it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
import pytest_asyncio

from tests import ceilings
from tests.children.sessions import (
    ended,
    latest,
    lines,
    misbehaving,
    ready,
    reason_of,
    run,
    session_with,
    until,
)
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from tui.core import reports
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from workloads import START
from workloads.protocol import messages as protocol
from workloads.protocol import wire

E = TypeVar("E")

DEADLY = (signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT)

shared_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Kept:
    """A session that tests share, and the processes that there were before it."""

    session: Session
    others: list[psutil.Process]

    def processes(self) -> list[psutil.Process]:
        """All that it has started and that has not ended."""
        family = psutil.Process().children(recursive=True)
        return [process for process in family if process not in self.others]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kept]:
    folder = tmp_path_factory.mktemp("faults")
    others = psutil.Process().children(recursive=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_WORKBENCH_STATE", str(folder / "state"))
        async with session_with(misbehaving(folder)) as session:
            await ready(session)
            found = Kept(session, others)
            yield found
    await wait_for(lambda: not found.processes())


@pytest_asyncio.fixture(loop_scope="module")
async def kept(started: Kept) -> Kept:
    """Return the shared session at rest, with an empty log."""
    await ready(started.session)
    assert started.session.state.runs.pending() == ()
    started.session.state.log.clear()
    return started


async def wait_for(holds: Callable[[], bool]) -> None:
    """For what no event tells of."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come about")


async def start(session: Session, workload: str, phase: str = "measuring") -> RunState:
    """Start a run and wait until it is measuring."""
    session.run([workload], ["cpu"], "careful")

    def under_way() -> bool:
        progress = latest(session).progress
        measured = progress is not None and progress.estimate_s is not None
        return (
            progress is not None and progress.phase == phase and (measured or phase != "measuring")
        )

    await until(session, under_way)
    return latest(session)


async def assert_the_next_run_is_clean(kept: Kept) -> None:
    await ready(kept.session)
    after = await run(kept.session, "rests")
    assert after.result is not None
    assert (after.result.status, after.result.reason) == ("ok", None)
    # A runner and its worker, and nothing that an earlier one has left.
    await wait_for(lambda: len(kept.processes()) == 2)


async def kill_and_look(kept: Kept, workload: str, victim: str, number: signal.Signals) -> RunState:
    """Kill a process in the middle of a run; the run as it ended, when all is clean again."""
    session = kept.session
    hello, worker = session.state.runs.hello, session.state.machine.worker_pid
    assert hello is not None
    assert worker is not None
    left = psutil.Process(worker).children(recursive=True)
    os.kill(hello.pid if victim == "runner" else worker, number)
    run = await ended(session, latest(session))
    assert run.request.workload == workload
    assert number.name in reason_of(run)
    assert "the next run gets a new one" in reason_of(run)
    assert any(number.name in line.text for line in lines(session, "error"))
    await wait_for(lambda: not any(process.is_running() for process in left))
    await assert_the_next_run_is_clean(kept)
    assert session.state.machine.worker_pid != worker
    return run


def assert_the_estimate_is_kept(run: RunState) -> None:
    assert run.result is not None
    kept = run.result.figures["median_so_far"]
    assert isinstance(kept.value, float)
    assert kept.value > 0
    assert "time" in run.result.unavailable


@shared_loop
@pytest.mark.slow
async def test_t30_a_worker_killed_in_mid_run_is_said_and_its_estimate_is_kept(
    kept: Kept, state: Path
) -> None:
    session = kept.session
    earlier = await run(session, "rests")
    for number in DEADLY:
        await start(session, "rests")
        assert_the_estimate_is_kept(await kill_and_look(kept, "rests", "worker", number))
        session.state.log.clear()
    # What had been measured before is as it was.
    assert session.state.runs.book[earlier.request.id].result is earlier.result
    saved = list((state / "reports").iterdir())
    assert len(saved) == len(DEADLY)
    assert all(report.stat().st_mode & 0o777 == 0o600 for report in saved)
    # The processes of its data loader go with it.
    await start_with_children(session)
    await kill_and_look(kept, "leaves_loaders", "worker", signal.SIGKILL)


@shared_loop
@VARIANT
async def test_t30_a_runner_killed_in_mid_run_leaves_no_loader_and_no_other_child(
    kept: Kept,
) -> None:
    await start_with_children(kept.session)
    ended = await kill_and_look(kept, "leaves_loaders", "runner", signal.SIGKILL)
    assert "by the kernel's out-of-memory killer" in reason_of(ended)


async def start_with_children(session: Session) -> None:
    """Start a run whose worker has two loaders and a process of another program."""
    await start(session, "leaves_loaders", "first call")
    worker = session.state.machine.worker_pid
    assert worker is not None
    await wait_for(lambda: len(psutil.Process(worker).children()) >= 3)


@VARIANT
@shared_loop
async def test_t30_an_error_of_the_device_ends_the_run_alone_and_a_hang_can_be_cancelled(
    kept: Kept,
) -> None:
    session = kept.session
    first = await run(session, "rests")
    for workload, says, replaced in (
        ("runs_out_of_memory", "CUDA out of memory", False),
        ("reads_where_nothing_is", "illegal memory access", True),
        ("loses_the_device", "device-side assert", True),
    ):
        worker = session.state.machine.worker_pid
        failed = await run(session, workload)
        assert says in reason_of(failed)
        assert any(says in line.text for line in lines(session, "error"))
        await assert_the_next_run_is_clean(kept)
        assert (session.state.machine.worker_pid != worker) is replaced
    assert session.state.runs.book[first.request.id] == first
    # A call into C that keeps the interpreter to itself hears nothing.
    await start(session, "holds_the_gil", "first call")
    hanging = session.state.machine.worker_pid
    assert hanging is not None
    thread = Path(f"/proc/{hanging}/comm")
    await wait_for(lambda: thread.read_text() == "holds the GIL\n")
    session.cancel()
    await until(session, lambda: latest(session).ended)
    assert "its process had to be ended" in reason_of(latest(session))
    await wait_for(lambda: not psutil.pid_exists(hanging))
    await assert_the_next_run_is_clean(kept)


# ---- a full disk ----


def test_a_report_that_does_not_fit_on_the_disk_leaves_nothing_half_written(state: Path) -> None:
    # A limit on the size of files refuses a write in the middle, as a full disk does.
    code = (
        "import resource; from tui.core import reports;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (4096, {resource.RLIM_INFINITY}));"
        "reports.save('short', (), ());"
        "reports.save('long', (), ['x' * 100] * 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "OSError" in done.stderr
    (kept,) = (state / "reports").iterdir()
    assert kept.read_text(encoding="utf-8").startswith("short\n")


@VARIANT
@shared_loop
async def test_a_full_disk_costs_the_report_and_not_the_run(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    session = kept.session
    monkeypatch.setattr(reports, "write_private", full)
    await start(session, "rests")
    ended = await kill_and_look(kept, "rests", "worker", signal.SIGKILL)
    assert_the_estimate_is_kept(ended)
    said = [line.text for line in lines(session, "error")]
    assert any("the report was not saved: [Errno 28] No space left" in text for text in said)
    assert session.state.runs.runner.report is None


# ---- a front end that does not read ----


class Reader:
    """A front end that reads the runner's events when it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *START, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def send(self, *messages: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(map(wire.encode, messages)))
        self.process.stdin.flush()

    def next(self, kind: type[E]) -> E:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = wire.decode(line, protocol.EVENTS)
            if isinstance(event, kind):
                return event
        raise AssertionError("the runner ended")

    def fill_the_pipe(self) -> None:
        """Wait until nothing more fits: what waits stays the same over many looks.

        It is more than half of the pipe: a line that does not fit into a page begins a new one.
        """
        assert self.process.stdout is not None
        least = fcntl.fcntl(self.process.stdout, fcntl.F_GETPIPE_SZ) // 2
        before, same = -1, 0
        while same < 10:
            time.sleep(0.05)
            found = fcntl.ioctl(self.process.stdout.fileno(), termios.FIONREAD, bytes(4))
            now = int.from_bytes(found, sys.byteorder)
            same = same + 1 if now == before and now > least else 0
            before = now


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    found = Reader()
    found.next(protocol.Ready)
    found.send(protocol.KnownCeilings(ceilings.made_up()))
    yield found
    found.process.kill()
    found.process.wait()
    for pipe in (found.process.stdin, found.process.stdout):
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


# Each is refused at once, and the answers are more than a pipe holds.
MANY = [protocol.Run(f"run-{n}", "nonesuch", "cpu", {}, {}, "quick") for n in range(400)]


@VARIANT
def test_a_runner_whose_reader_is_stalled_goes_on_and_loses_no_result(reader: Reader) -> None:
    runner = psutil.Process(reader.process.pid)
    before = runner.memory_info().rss
    reader.send(*MANY)
    reader.send(protocol.Run("endless", "mlp_training", "cpu", {"epochs": 1000}, {}, "careful"))
    reader.fill_the_pipe()
    reader.send(protocol.Cancel(""))
    reader.send(protocol.Run("last", "transfer", "cpu", {"mib": 1}, {}, "quick"))
    results = {}
    while "last" not in results:
        result = reader.next(protocol.Finished).result
        results[result.id] = result
    assert results.keys() == {*(request.id for request in MANY), "endless", "last"}
    assert results["endless"].status == "cancelled"
    assert results["last"].status == "ok"
    assert runner.memory_info().rss < before + 64 * 2**20


@VARIANT
def test_a_runner_whose_reader_is_stalled_ends_with_it(reader: Reader) -> None:
    reader.send(*MANY)
    reader.fill_the_pipe()
    family = [psutil.Process(reader.process.pid), *psutil.Process(reader.process.pid).children()]
    assert len(family) == 2
    assert reader.process.stdin is not None
    reader.process.stdin.close()
    assert reader.process.wait(60) == 0
    assert_gone(family)
