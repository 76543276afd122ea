"""Live stacks of a watched process: read by the agent's own thread, parsed, shown, printed."""

from __future__ import annotations

import gc
import json
import os
import select
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.waiting import until
from tui.kit.lines import plain
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import ThreadStack
from tui.watch.cli.watch import print_stacks
from tui.watch.runs import runs
from tui.watch.runs.agents import (
    NO_PROCESS,
    Agents,
    ProcessStacks,
    RankStacks,
    parse_stacks,
    read_rank_stacks,
)
from tui.watch.runs.runs import StartedRun, save
from tui.watch.views.rank_stacks import describe_rank, rank_stack_lines
from workloads.agent import identity, stacks
from workloads.agent.address import LONGEST_LINE
from workloads.agent.agent import Agent
from workloads.agent.listening import Listening
from workloads.protocol import wire


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide the folder of a run whose one process is this one, with the agent."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    folder = tmp_path / "runs" / "20260101-120000-77"
    folder.mkdir(parents=True)
    ticks = int(identity(os.getpid()).rpartition("-")[2])
    save(StartedRun(folder, ("python",), "/", 1.0, os.getpid(), ticks, host=os.uname().nodename))
    with tempfile.TemporaryDirectory() as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        agent = Agent(SimpleNamespace(), str(folder))
        facts = {"identity": agent.identity, "pid": os.getpid(), "host": os.uname().nodename}
        agent.log_event("begin", rank="3", torch="2.13.0", python="3", **facts)
        listening = Listening(agent)
        yield folder
        agent.alive = False
        listening.end()


def stuck(until_told: int) -> None:
    """Wait in a call of C's."""
    select.poll().poll(1) if until_told < 0 else os.read(until_told, 1)


def asked_while_stuck(ask: Callable[[], None]) -> None:
    """Ask from another thread while this one, the main one, is in a call of C's."""
    reads, writes = os.pipe()

    def work() -> None:
        try:
            ask()
        finally:
            os.write(writes, b"x")

    other = threading.Thread(target=work, name="asks")
    other.start()
    stuck(reads)
    other.join()
    os.close(reads)
    os.close(writes)


def test_a_main_thread_that_is_stuck_in_c_is_found_at_its_line(run: Path) -> None:
    found: list[RankStacks] = []
    asked_while_stuck(lambda: found.extend(read_rank_stacks(runs.find_run(run.name))[0]))
    (rank,) = found
    assert (rank.rank, rank.pid, rank.why_none) == ("3", os.getpid(), "")
    assert rank.stacks is not None
    main = rank.stacks.threads[0]
    assert main.main
    assert main.frames[0].name == "stuck"
    assert main.frames[0].filename == __file__
    assert "asks" in {each.name for each in rank.stacks.threads}
    names = {frame.filename for each in rank.stacks.threads for frame in each.frames}
    assert not any("workloads/agent" in name for name in names), "the agent's own are left out"
    assert describe_rank(rank).startswith(
        f"rank 3 ({os.getpid()}), 0 optimizer steps: at test_stacks"
    )


def test_the_stacks_are_printed_and_given_as_json(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    asked_while_stuck(lambda: codes.append(print_stacks(run.name, as_json=False)))
    text = capsys.readouterr().out
    assert f"rank 3 ({os.getpid()}), main thread" in text
    assert " stuck" in text
    asked_while_stuck(lambda: codes.append(print_stacks("", as_json=True)))
    told = json.loads(capsys.readouterr().out)
    (process,) = told["processes"]
    assert process["stacks"]["threads"][0]["frames"][0]["name"] == "stuck"
    assert told["unavailable"] == {}
    assert codes == [0, 0]


def test_a_run_without_a_process_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in run.glob("*.jsonl"):
        path.unlink()
    assert print_stacks(run.name, as_json=False) == 1
    assert NO_PROCESS[:40] in capsys.readouterr().out


def test_an_agent_that_does_not_answer_is_reported_with_what_helps(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.watch.runs.agents.TIMEOUT_S", 0.02)
    monkeypatch.setattr(stacks, "stacks_now", lambda _hidden: {"threads": "no"})
    (rank,), _ = read_rank_stacks(runs.find_run(run.name))
    assert rank.stacks is None
    assert f"py-spy dump --pid {os.getpid()}" in rank.why_none
    assert rank.why_none in describe_rank(rank)


def test_an_answer_fits_its_line_however_many_threads_there_are() -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            ready.append(1)
            go_on.wait()

    ready: list[int] = []
    go_on = threading.Event()
    threads = [threading.Thread(target=deep, args=(80,), daemon=True) for _ in range(24)]
    for each in threads:
        each.start()
    until(lambda: len(ready) == len(threads))
    found = stacks.stacks_now("/nothing/")
    go_on.set()
    for each in threads:
        each.join()
    assert len(json.dumps(found)) < LONGEST_LINE
    assert found["left_out"] > 0
    assert found["threads"][0]["main"]


class Held:
    """Stands for a tensor: what becomes of it tells whether something keeps it."""


@pytest.mark.parametrize(
    "read",
    [lambda: stacks.thread_stacks(0, "/-"), lambda: stacks.frames_of_threads(0, "workloads.agent")],
)
def test_nothing_is_kept_of_the_frames(read: Callable[[], object]) -> None:
    def fail() -> weakref.ref[Held]:
        held = Held()
        read()
        return weakref.ref(held)

    gc.collect()
    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "answer", [None, {}, {"refused": "x"}, {"threads": 3}, {"threads": [{"name": 1}]}]
)
def test_what_is_no_answer_is_refused(answer: object) -> None:
    with pytest.raises(wire.WireError):
        parse_stacks("box-12-3", answer)


def test_the_user_s_own_line_comes_before_the_library_s() -> None:
    frames = (
        Frame("/x/site-packages/torch/distributed/c10d.py", 9, "all_reduce"),
        Frame("/home/ada/train.py", 41, "train"),
    )
    threads = (ThreadStack("MainThread", False, True, frames),)
    rank = RankStacks(12, None, ProcessStacks("box-12-3", 12, 7, threads, left_out=2))
    words = "process 12, 7 optimizer steps: at train.py:41 in train, in c10d.py:9 in all_reduce"
    assert describe_rank(rank) == words
    lines = [plain(each) for each in rank_stack_lines([rank], "", 100)]
    assert any("train.py:41 train" in each for each in lines)
    assert any("and 2 more threads" in each for each in lines)


def test_agents_that_are_not_there_are_absent() -> None:
    agents = Agents()
    assert agents.stacks(["box-1-1"]) == {}
    agents.close()
