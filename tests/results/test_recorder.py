"""What a session measures is kept with what it was measured on, and a bad store costs no run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.results.samples import BEGAN, timing
from tests.screens.helpers import gpu, make_store, sample, uuid
from tui.core.events import LogLine
from tui.recordings.lines import AnyEvent
from tui.results.store.database import Database, describe_outcome
from tui.results.store.recorder import ResultRecorder
from tui.results.store.records import StoredResult
from tui.runs.session.runner_session import RunnerSession
from tui.runs.state.events import CompareQueued, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.results import Arm, Comparison, MeasuredSpan, RunResult, Setting, Status


def _request(number: int = 1, device: str = "cuda:0", n: int = 64) -> messages.Run:
    parameters: dict[str, Setting] = {"n": n}
    return messages.Run(f"run-{number}", "matmul", device, parameters, {"cudnn.benchmark": True})


def _finished(request: messages.Run, status: Status = "ok", *, timed: bool = True) -> AnyEvent:
    number = int(request.id.partition("-")[2])
    result = RunResult(
        request.id,
        request.workload,
        request.device,
        request.parameters,
        request.flags,
        status,
        None if status == "ok" else "told",
        time=timing([1e-3] * 7, BEGAN + number) if timed else None,
        started_at=BEGAN + number,
        ended_at=BEGAN + 2 + number,
        chosen={"n": 128} if request.parameters["n"] == 0 else {},
        spans=(MeasuredSpan(BEGAN, BEGAN + 1, (request.device,)),),
    )
    return messages.Finished(result)


def _attach(recorder: ResultRecorder, state: WorkbenchState) -> None:
    """Attach a recorder to the runs of this machine, without the runner's own subscriptions."""
    runs = SimpleNamespace(bus=state.bus, runs=state.runs, publish=state.publish)
    recorder.attach_runner(cast(RunnerSession, runs))


async def _kept(state: WorkbenchState, place: Path, *events: AnyEvent) -> list[StoredResult]:
    """Return the stored results, the oldest first, after a session with these events."""
    recorder = ResultRecorder(place)
    _attach(recorder, state)
    for event in events:
        state.publish(event)
    await recorder.detach()
    assert recorder.problems == []
    with Database(place) as database:
        return [database.read_result(row) for row in reversed(database.read_rows())]


async def test_a_run_is_kept_with_its_blocks_and_what_it_was_measured_on(tmp_path: Path) -> None:
    state = make_store("two gpus", sample(gpu(vbios="96.00.B9"), gpu(1, power_limit_w=None)))
    events: list[AnyEvent] = []
    for number, device in enumerate(("cuda:0", "cuda:1", "cpu"), 1):
        request = _request(number, device, n=0)
        events += [RunQueued(request), _finished(request)]
    first, second, third = await _kept(state, tmp_path / "r", *events)
    assert first.record.run is not None
    assert first.record.run.time is not None
    assert first.record.run.time.block_times_s == (1e-3,) * 7
    assert first.record.parameters == {"n": 128}
    assert (first.record.budget, first.record.at) == ("normal", BEGAN + 3)
    facts = first.facts.values
    assert state.machine.environment is not None
    assert {
        "box": "gpu-box-3",
        "gpu": "NVIDIA H200",
        "gpu uuid": uuid(0),
        "vbios": "96.00.B9",
        "power limit": "700 W",
        "driver": "580.159.03",
        "torch": state.machine.environment.torch,
        "threads": str(state.machine.environment.threads),
        "flag cudnn.benchmark": "on",
    }.items() <= facts.items()
    assert first.facts.unknown == {}
    # Of the other GPU two things are not known; on the CPU they are not asked for.
    assert second.facts.unknown == dict.fromkeys(("power limit", "vbios"), "not reported")
    assert not {"gpu", "driver", "power limit"} & {*third.facts.values, *third.facts.unknown}
    assert len({one.facts.hash for one in (first, second, third)}) == 3
    # They came from one process, which is told.
    assert first.record.process == third.record.process


async def test_what_measured_nothing_is_not_kept_and_what_failed_is(tmp_path: Path) -> None:
    events: list[AnyEvent] = []
    cases: list[tuple[Status, bool]] = [
        ("skipped", False),
        ("cancelled", False),
        ("cancelled", True),
        ("failed", False),
    ]
    for number, (status, timed) in enumerate(cases, 1):
        request = _request(number)
        events += [RunQueued(request), _finished(request, status, timed=timed)]
    waiting = _request(9)
    events += [RunQueued(waiting), messages.Rejected(waiting.id, "the runner ended", "failed")]
    found = await _kept(make_store("one gpu"), tmp_path / "r", *events)
    assert [(one.record.status, one.record.median_s) for one in found] == [
        ("cancelled", 1e-3),
        ("failed", None),
        ("failed", None),
    ]
    assert found[-1].record.reason == "the runner ended"


async def test_a_run_of_the_presentation_is_not_stored(tmp_path: Path) -> None:
    shown, own = _request(1), _request(2)
    events = (RunQueued(shown, demo=True), _finished(shown), RunQueued(own), _finished(own))
    (stored,) = await _kept(make_store("one gpu"), tmp_path / "r", *events)
    assert stored.record.at == BEGAN + 4


async def test_runs_of_a_sweep_are_told_from_the_runs_after_it(tmp_path: Path) -> None:
    state = make_store("one gpu")
    sizes: tuple[dict[str, Setting], ...] = ({"n": 1}, {"n": 2})
    first, second, third, later = (
        _request(number, n=n) for number, n in ((1, 1), (2, 2), (3, 1), (4, 7))
    )
    events: list[AnyEvent] = [
        SweepSet("matmul", Sweep({"n": "1,2"}, sizes)),
        RunQueued(first),
        RunQueued(second),
        _finished(first),
        _finished(second),
        SweepSet("matmul", Sweep({"n": "1,2"}, sizes)),
        RunQueued(third),
        _finished(third),
        RunQueued(later),
        _finished(later),
    ]
    found = await _kept(state, tmp_path / "r", *events)
    sweeps = [one.record.sweep for one in found]
    assert sweeps[0] == sweeps[1] != sweeps[2] != ""
    assert sweeps[3] == ""


async def test_a_comparison_is_kept_once_it_is_done(tmp_path: Path) -> None:
    request = messages.Compare(
        "compare-1", "conv2d", "cuda:0", {}, "cudnn.benchmark", (False, True), {}
    )
    comparison = Comparison(
        id="compare-1",
        workload="conv2d",
        device="cuda:0",
        parameters={},
        flag="cudnn.benchmark",
        arms=(Arm(False, 2e-3, None), Arm(True, 1e-3, None)),
        ratio=2.0,
        ci95=(1.9, 2.1),
        pairs=3,
        pairs_wanted=3,
        verdict="faster",
        break_even_calls=None,
        fresh_process=True,
        pair_ratios=(1.9, 2.0, 2.1),
        measured=((BEGAN, BEGAN + 4),),
    )
    found = await _kept(
        make_store("one gpu"),
        tmp_path / "r",
        CompareQueued(request),
        messages.Compared(replace(comparison, pairs=1, pair_ratios=(2.0,)), done=False),
        messages.Compared(comparison, done=True),
    )
    assert [one.record.comparison for one in found] == [comparison]
    assert found[0].record.at == BEGAN + 4
    assert describe_outcome(found[0].record) == (
        "2.0x faster with cudnn.benchmark, 1.00 ms instead of 2.00 ms"
    )
    switched_off = replace(comparison, arms=comparison.arms[::-1], ratio=0.5, verdict="slower")
    record = replace(
        found[0].record,
        comparison=replace(switched_off, ci95=(0.48, 0.52), pair_ratios=(0.48, 0.5, 0.52)),
    )
    assert describe_outcome(record) == (
        "2.00x slower with cudnn.benchmark off, 2.00 ms instead of 1.00 ms"
    )
    cancelled = replace(comparison, status="cancelled", pairs_wanted=10, reason="kept")
    record = replace(found[0].record, comparison=cancelled)
    assert describe_outcome(record) == "cancelled after 3 of 10 pairs: so far 2.00x"
    unclear = replace(comparison, verdict="unclear", ratio=1.02, ci95=(0.97, 1.08), pair_ratios=())
    record = replace(found[0].record, comparison=unclear)
    assert describe_outcome(record) == "unclear: 0.97–1.08x with cudnn.benchmark"


async def test_a_store_that_cannot_be_used_is_one_line_and_costs_no_run(tmp_path: Path) -> None:
    place = tmp_path / "r"
    place.write_bytes(b"no database, and long enough not to be taken for an empty one" * 20)
    state, told = make_store("one gpu"), list[LogLine]()
    recorder = ResultRecorder(place)
    state.bus.subscribe(LogLine, told.append)
    _attach(recorder, state)
    recorder.start()
    for number in (1, 2):
        request = _request(number)
        for event in (RunQueued(request), _finished(request)):
            state.publish(event)
    await recorder.detach()
    assert len(recorder.problems) == 1
    assert recorder.problems[0].startswith(f"results are not stored: {place}: ")
    assert recorder.problems[0].endswith("it is damaged; move it away, and a new one is made")
    assert [line.text for line in told] == recorder.problems
    assert all(run.result is not None for run in state.runs.book.values())


async def test_a_session_that_keeps_nothing_makes_no_file_and_no_thread(tmp_path: Path) -> None:
    recorder = ResultRecorder(tmp_path / "r")
    await recorder.detach()
    assert list(tmp_path.iterdir()) == []


async def test_what_nobody_foresaw_is_told_and_the_next_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, recorder = make_store("one gpu"), ResultRecorder(tmp_path / "r")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    add, failed = Database.add, list[bool]()

    def failing_once(database: Database, kept: Iterable[StoredResult]) -> int:
        if not failed:
            failed.append(True)
            raise KeyError("odd")
        return add(database, kept)

    monkeypatch.setattr(Database, "add", failing_once)
    _attach(recorder, state)
    for number in (1, 2):
        request = _request(number)
        for event in (RunQueued(request), _finished(request)):
            state.publish(event)
    await recorder.detach()
    (problem,) = recorder.problems
    assert problem.startswith("results are not stored: failed: KeyError: 'odd'; report: ")
    with Database(tmp_path / "r") as database:
        assert database.count() == 1
