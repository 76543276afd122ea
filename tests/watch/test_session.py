"""Runs that are opened, of commands that need no GPU: each thing that is wrong is one line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from tests import waiting
from tests.tiers import VARIANT
from tests.watch.following import until
from tests.watch.test_samples import steps
from tests.watch.test_watched_processes import held, process
from tui.allocators.messages import ProcessFigures, TorchProcesses, WatchEvent
from tui.core.child.process import ChildProcess
from tui.core.events import EventBus
from tui.core.tasks import Tasks
from tui.devices.session import shared_watch
from tui.devices.session.shared_watch import SharedWatch, WatchInterest
from tui.watch.runs import runs, samples, start
from tui.watch.runs.rehearsals import FILE, begin_note, read_note, save_note
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.samples import SamplesFile
from tui.watch.session import sampler as watching
from tui.watch.session import watched_session
from tui.watch.session.watched_session import RunError, WatchedRunSession
from tui.watch.state.run import WatchedRun
from tui.watch.views.run import format_run_title, is_on
from workloads.agent import identity

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "state"


@pytest.fixture
def ended() -> StartedRun:
    """Store a run with samples of one process."""
    run = replace(runs.new_run(["python", "train.py"]), began=1e9, ended=1e9 + 60, code=0)
    runs.save(run)
    file = SamplesFile(run, starter=True)
    for event in (TorchProcesses(1e9, (process(rank=2),)), held(1), steps(2, 7), held(3)):
        file.store(event)
    file.close()
    run.log.write_text("done\n")
    return run


def begun(
    session: WatchedRunSession, command: Sequence[str], entries: int | None = None
) -> StartedRun:
    """Start a command under the watch and follow it."""
    run, _ = start.begin(command, entries)
    session.open(run)
    return run


def opened(run: StartedRun, then: Callable[[], None] = lambda: None) -> WatchedRun:
    """Return the state of a finished run after the session has read it."""

    async def work() -> WatchedRun:
        session = WatchedRunSession()
        session.open(run)
        before = session.state
        assert before is not None
        assert before.why_no_samples == "its samples are being read"
        found = await until(session, lambda state: state.replayed and state)
        then()
        await session.stop()
        assert session.state is None
        assert isinstance(found, WatchedRun)
        return found

    return asyncio.run(work())


def test_a_run_that_has_ended_is_replayed(ended: StartedRun) -> None:
    found = opened(ended)
    (row,) = found.devices
    assert (row.process.rank, row.steps, len(row.points), row.ended) == (2, 7, 2, "ended")
    assert (found.output, found.notes, found.why_no_samples) == (("done",), (), "")
    assert found.run == ended


def test_samples_that_are_damaged_cost_their_lines_and_say_so(ended: StartedRun) -> None:
    with ended.samples.open("ab") as file:
        file.write(b'{"type": "process_figures", "at": "x"}\n\xff\xfe\n{"type": "st')
    found = opened(ended)
    assert found.notes == ("2 lines of samples.jsonl cannot be read and are left out",)
    assert len(found.devices[0].points) == 2
    ended.samples.unlink()
    ended.samples.mkdir()
    found = opened(ended)
    assert found.notes == ("its samples cannot be read: Is a directory",)
    assert found.devices == ()


def test_a_run_of_another_machine_says_where_it_is_and_is_not_touched(ended: StartedRun) -> None:
    # Its pid is that of a process here.
    far = replace(ended, ended=None, code=None, host="far", pid=os.getpid())
    ticks = int(identity().rpartition("-")[2])
    far = replace(far, start_ticks=ticks)
    runs.save(far)
    found = opened(runs.find_run(far.folder.name))
    assert "the run is on far" in found.why_no_samples
    assert [row.ended for row in found.devices] == [""]
    assert not far.is_running
    assert watched_session.send_signal(far, signal.SIGKILL) == (
        "SIGKILL is not sent: it is a run of far; end it there"
    )


def test_a_folder_that_is_gone_is_a_line(ended: StartedRun) -> None:
    for path in ended.folder.iterdir():
        path.unlink()

    def go() -> None:
        ended.folder.rmdir()

    found = opened(ended, go)
    assert found.notes == ("its output went to where it was started: --here and --env store none",)

    async def work() -> None:
        session = WatchedRunSession()
        with pytest.raises(RunError, match="cannot be read: No such file or directory; gpu-work"):
            session.open(ended)
        with pytest.raises(start.StartError, match="no-such-program: no such program on PATH"):
            begun(session, ["no-such-program"])
        assert session.state is None

    asyncio.run(work())
    assert runs.stored_runs() == []


def test_a_command_is_followed_to_its_end(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "print('\\x1b[1mbegun\\x1b[0m', flush=True)\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\n"
        "sys.exit(3)\n"
    )

    async def work() -> None:
        session = WatchedRunSession()
        session.set_visible(True)
        run = begun(session, [sys.executable, "-c", code, str(tmp_path / "go")], 500)
        await until(session, lambda state: state.output == ("begun",))
        assert session.state is session.state
        known = session.state
        assert known is not None
        assert (known.run.is_running, known.replayed, known.notes) == (True, False, ())
        assert session.snapshot(os.getpid()) == f"no snapshot: the run has no process {os.getpid()}"
        # Left and opened again, it goes on; the program that started it learns how it ends.
        session.close()
        assert session.state is None
        session.open(runs.find_run(run.folder.name))
        (tmp_path / "go").touch()
        found = await until(session, lambda state: state.run.ended and state)
        assert (found.run.code, found.run.signal, found.output) == (3, None, ("begun",))
        await session.stop()

    asyncio.run(work())
    (kept,) = runs.stored_runs()
    assert kept.code == 3


def test_its_folder_may_go_while_it_runs() -> None:
    async def work() -> None:
        session = WatchedRunSession()
        run = begun(session, [sys.executable, "-c", SLEEPS])
        await until(session, lambda state: state.output)
        for path in run.folder.iterdir():
            path.unlink()
        run.folder.rmdir()
        assert "is sent" in session.end(signal.SIGTERM)
        found = await until(session, lambda state: state.run.ended and state)
        assert found.run.signal == signal.SIGTERM
        assert f"{run.folder} is gone: nothing more of the run is stored" in found.notes
        await session.stop()

    asyncio.run(work())


@VARIANT
def test_a_watch_that_dies_is_started_anew_and_a_frozen_page_stands() -> None:
    async def work() -> None:
        session = WatchedRunSession()
        run = begun(session, [sys.executable, "-c", SLEEPS])
        followed = session._followed
        assert followed is not None

        def watch() -> int | None:
            children = session._watch.children
            return children[-1].pid if children else None

        first = await until(session, lambda _: watch())
        session.freeze(True)
        frozen = session.state
        assert frozen is not None
        os.kill(first, signal.SIGKILL)
        said = await until(session, lambda state: state.why_no_samples)
        assert "the watch ended: SIGKILL" in said
        assert said.endswith("; it is restarted")
        await until(session, lambda state: not state.why_no_samples)
        assert watch() not in (None, first)
        session.freeze(True)
        assert session.state is not None
        assert session.state.frozen_at == frozen.frozen_at
        assert "is sent" in session.end(signal.SIGKILL)
        # That it has ended is told all the same.
        await until(session, lambda state: state.run.signal == signal.SIGKILL)
        await session.stop()
        assert run.folder.exists()

    asyncio.run(work())


SLEEPS = "import time; print(1, flush=True); time.sleep(1000)"


def test_a_signal_reaches_the_group_and_never_another_s_number() -> None:
    shell = "sleep 1000 & exec sleep 1001"
    run, process = start.begin(["/bin/sh", "-c", shell], None)
    stranger = subprocess.Popen(["sleep", "1002"], start_new_session=True)
    try:
        # The pid is another's by now: it started at another time.
        reused = replace(run, pid=stranger.pid, start_ticks=1)
        for number in watched_session.SIGNALS:
            assert (
                watched_session.send_signal(reused, number)
                == f"{number.name} is not sent: it has ended already"
            )
        assert stranger.poll() is None
        assert watched_session.send_signal(replace(run, pid=None), signal.SIGINT) == (
            "SIGINT is not sent: --env has no process of its own; end it where it was started"
        )
        with pytest.raises(ValueError, match="no signal to end a run with"):
            watched_session.send_signal(run, signal.SIGSTOP)
        waiting.until(lambda: sum(_group(pid) == run.pid for pid in _pids()) == 2)
        assert watched_session.send_signal(run, signal.SIGTERM) == (
            f"SIGTERM is sent to the run's processes, group {run.pid}"
        )
        process.wait()
        assert (
            watched_session.send_signal(run, signal.SIGTERM)
            == "SIGTERM is not sent: it has ended already"
        )
    finally:
        stranger.kill()
        stranger.wait()
        with_left = [pid for pid in _pids() if _group(pid) == run.pid]
        for pid in with_left:
            os.kill(pid, signal.SIGKILL)


def test_a_stored_run_of_the_same_pid_is_not_the_child_of_that_pid() -> None:
    run, process = start.begin(["sleep", "1000"], None)
    try:
        # In a container the same numbers come again after each start of it.
        folder = run.folder.with_name("20250101-000000-1")
        folder.mkdir()
        earlier = replace(run, folder=folder, start_ticks=1)
        assert (
            watched_session.send_signal(earlier, signal.SIGTERM)
            == "SIGTERM is not sent: it has ended already"
        )
        assert process.poll() is None
        assert not start.is_child(earlier)
    finally:
        process.kill()
        process.wait()


def test_what_is_left_while_the_watch_is_being_started_leaves_no_child(
    ended: StartedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Halting(ChildProcess[WatchEvent]):
        """Its process is there, and the pipes to it are not yet."""

        async def _read_from(
            self, pipe: IO[bytes]
        ) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
            assert not pipe.closed
            started.append(self)
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(shared_watch, "ChildProcess", Halting)

    async def work() -> None:
        tasks = Tasks()
        watch = SharedWatch(EventBus(), tasks.spawn)
        run = replace(ended, pid=os.getpid())
        sampling = watching.Sampler(run, lambda _: None, watch, starter=True)
        task = asyncio.create_task(sampling.run())
        while not started:
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await tasks.ended()

    asyncio.run(work())
    assert [child.running for child in started] == [False]


def test_a_run_stores_its_own_processes_alone_from_a_watch_that_others_share() -> None:
    run = replace(runs.new_run(["train"]), pid=os.getpid())
    everything: list[object] = []

    async def work() -> None:
        tasks = Tasks()
        watch = SharedWatch(EventBus(), tasks.spawn)
        parent = WatchInterest(0.1, frozenset({os.getppid()}), others=True)
        tab = watch.join(parent, everything.append)
        has_figures = asyncio.Event()

        def take(event: object) -> None:
            if isinstance(event, ProcessFigures):
                has_figures.set()

        task = asyncio.create_task(watching.Sampler(run, take, watch, starter=True).run())
        await asyncio.wait_for(has_figures.wait(), waiting.TIMEOUT_S)
        (child,) = watch.children
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert watch.children == (child,), "the tab still reads"
        tab.leave()
        await watch.ended()
        assert not child.running
        await tasks.ended()

    asyncio.run(work())
    listed = {each.pid for found in of_lists(everything) for each in found.processes}
    assert os.getppid() in listed
    stored: list[object] = []
    samples.read(run, stored.append)
    assert of_lists(stored)
    for found in of_lists(stored):
        assert all(os.getpid() in each.requested for each in found.processes)
        assert os.getppid() not in {each.pid for each in found.processes}


def of_lists(events: Sequence[object]) -> list[TorchProcesses]:
    return [each for each in events if isinstance(each, TorchProcesses)]


def test_one_that_took_the_place_of_a_program_of_a_script_is_ended_alone() -> None:
    # Its group is that of this test: a signal to it would end the test.
    process = subprocess.Popen(["sleep", "1000"])
    try:
        run = runs.record_start(runs.new_run(["sleep", "1000"]), process.pid)
        assert (
            watched_session.send_signal(run, signal.SIGTERM)
            == f"SIGTERM is sent to process {process.pid}"
        )
        assert process.wait() == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def test_a_run_that_is_left_has_its_end_written_down_all_the_same() -> None:
    async def work() -> StartedRun:
        session = WatchedRunSession()
        changes: list[bool] = []
        run = begun(session, [sys.executable, "-c", "input()"])
        session.close()
        session.listen(lambda: changes.append(True))
        deadline = asyncio.get_running_loop().time() + 60
        while not changes:
            assert asyncio.get_running_loop().time() < deadline, "its end was not told"
            await asyncio.sleep(0.01)
        await session.stop()
        return runs.read_again(run)

    run = asyncio.run(work())
    assert (run.code, run.ended is None) == (1, False)  # its input is empty


def test_a_run_that_has_failed_before_it_is_looked_at_says_how() -> None:
    async def work() -> WatchedRun:
        session = WatchedRunSession()
        run, process = start.begin([sys.executable, "-c", "import no_such_module"], None)
        process.wait()
        session.open(run)
        state: WatchedRun = await until(session, lambda state: state.run.ended and state)
        await session.stop()
        return state

    state = asyncio.run(work())
    assert state.run.code == 1
    assert runs.read_again(state.run) == state.run
    assert "ModuleNotFoundError" in state.output[-1]


@VARIANT
def test_a_run_whose_end_no_process_sees_is_not_running() -> None:
    async def work() -> WatchedRun:
        # As --here does: the one that has started it is another, and writes nothing down.
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        run = runs.record_start(runs.new_run(["python"]), process.pid)
        session = WatchedRunSession()
        session.open(run)
        await until(session, lambda state: is_on(state) and not state.why_no_samples)
        process.kill()
        process.communicate()
        state: WatchedRun = await until(session, lambda state: not is_on(state) and state)
        await session.stop()
        return state

    state = asyncio.run(work())
    assert format_run_title(state, time.time(), 80).startswith("Run   python   end unknown")


def test_the_verdict_on_a_rehearsal_appears_when_it_is_concluded(ended: StartedRun) -> None:
    note = begin_note("L4", 1, 22 << 30)
    save_note(ended.folder, note)

    async def work() -> None:
        session = WatchedRunSession()
        session.open(ended)
        state = await until(session, lambda state: state.replayed and state)
        assert state.rehearsal == note
        save_note(ended.folder, replace(note, answer="fits", conclusion=("fits on L4",)))
        await until(session, lambda state: state.rehearsal and state.rehearsal.answer == "fits")
        await session.stop()

    asyncio.run(work())


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"card": 3}\n', b"\xff\n"])
def test_a_note_that_is_none_is_no_rehearsal(ended: StartedRun, text: bytes) -> None:
    (ended.folder / FILE).write_bytes(text)
    assert read_note(ended.folder) is None
    assert opened(ended).rehearsal is None
