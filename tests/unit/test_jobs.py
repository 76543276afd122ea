"""Runs and comparisons as requests to a worker: their order, what is kept, how they end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.results import timing
from workloads import catalog
from workloads.measure import comparison
from workloads.measure.comparison import PAIRS_KEPT, ArmSample, Pair
from workloads.protocol import wire
from workloads.protocol.messages import (
    EVENTS,
    Compare,
    Compared,
    Event,
    Finished,
    HostHeap,
    Measured,
    Progress,
    Run,
)
from workloads.protocol.results import Comparison, RunResult, Status, Timing
from workloads.protocol.wire import EncodedMessage
from workloads.runner.jobs import BlocksJob, ProcessesJob, RunJob

assert catalog
REQUEST = Compare(
    "c", "conv2d", "cuda:0", {}, "cudnn.benchmark", (False, True), {"cudnn.enabled": True}, 3
)


def _timing(median: float, first: float) -> Timing:
    return replace(timing(median), first_call_s=first)


def _came(event: Event) -> EncodedMessage:
    """Encode an event as a worker does."""
    return EncodedMessage(wire.encode(event), EVENTS)


def _result(median: float, first: float, status: Status = "ok") -> RunResult:
    result = RunResult("c", "conv2d", "cuda:0", {"size": 224}, {}, status)
    return replace(result, time=_timing(median, first) if status == "ok" else None)


def _finished(median: float, first: float, status: Status = "ok") -> EncodedMessage:
    return _came(Finished(_result(median, first, status)))


def _setting(job: ProcessesJob) -> bool:
    request = job.next_request()
    assert job.fresh
    assert request.time_only
    assert request.flags["cudnn.enabled"] is True
    return request.flags["cudnn.benchmark"]


def test_each_arm_of_each_pair_gets_a_fresh_process_in_the_order_abba() -> None:
    job, settings = ProcessesJob(REQUEST), []
    while not job.done:
        setting = _setting(job)
        settings.append(setting)
        job.apply(_finished(1e-3 if setting else 2e-3, 0.5 if setting else 0.1))
    assert settings == [False, True, True, False, False, True]


def test_the_ratio_is_old_over_new_and_the_search_is_priced() -> None:
    job = ProcessesJob(REQUEST)
    told = None
    while not job.done:
        setting = _setting(job)
        told = job.apply(_finished(1e-3 if setting else 2e-3, 0.501 if setting else 0.102))
    assert isinstance(told, Compared)
    assert told.done
    found = told.comparison
    assert found.ratio == pytest.approx(2.0)
    assert found.verdict == "faster"
    assert [arm.setting for arm in found.arms] == [False, True]
    assert found.break_even_calls == pytest.approx((0.5 - 0.1) / 1e-3)
    assert found.parameters == {"size": 224}


def test_it_has_the_values_that_the_workload_chose() -> None:
    job = ProcessesJob(REQUEST)
    result = replace(_result(1e-3, 0.1), parameters={"batch": 0, "size": 8}, chosen={"batch": 64})
    for _ in range(2):
        event = job.apply(_came(Finished(result)))
    assert isinstance(event, Compared)
    assert event.comparison.parameters == {"batch": 64, "size": 8}


def test_progress_counts_pairs_not_blocks() -> None:
    job = ProcessesJob(REQUEST)
    job.apply(_finished(1e-3, 0.1))
    job.apply(_finished(1e-3, 0.1))
    told = job.apply(_came(Progress("c", "measuring", 1.0, "cuda:0", blocks=9)))
    assert isinstance(told, Progress)
    assert told.blocks == 1


@pytest.mark.parametrize("status", ["failed", "skipped", "cancelled"])
def test_an_arm_that_does_not_end_well_ends_the_comparison_and_keeps_the_pairs(
    status: Status,
) -> None:
    job = ProcessesJob(REQUEST)
    job.apply(_finished(2e-3, 0.1))
    job.apply(_finished(1e-3, 0.1))
    told = job.apply(_finished(0, 0, status))
    assert job.done
    assert isinstance(told, Compared)
    assert told.done
    assert (told.comparison.status, told.comparison.pairs) == (status, 1)
    assert (told.comparison.reason == PAIRS_KEPT) is (status == "cancelled")


def test_a_run_that_had_to_be_ended_keeps_its_estimate() -> None:
    job = RunJob(Run("r", "matmul", "cpu", {}, {}))
    job.apply(_came(Progress("r", "measuring", 1.0, "cpu", 7, 0.0123)))
    told = job.end("cancelled", "cancelled")
    assert isinstance(told, Finished)
    assert told.result.figures["median_so_far"].value == 0.0123
    assert "7 blocks" in told.result.figures["median_so_far"].about


def test_a_run_gets_a_fresh_process_where_its_workload_shows_what_happens_the_first_time() -> None:
    fresh = {
        name: RunJob(Run("r", name, "cpu", {}, {})).fresh
        for name in ("varying_shapes", "matmul", "nonesuch")
    }
    assert fresh == {"varying_shapes": True, "matmul": False, "nonesuch": False}


def test_without_a_pair_there_is_no_ratio_and_the_reason_is_given() -> None:
    found = comparison.summarise(REQUEST, [], fresh_process=True, parameters={})
    assert found.ratio is None
    assert found.verdict == "unclear"
    assert found.unavailable == {
        "ratio": "no pair was measured",
        "ci95": "no pair was measured",
        "break_even_calls": "no setting was shown to be faster",
    }


@pytest.mark.parametrize("swapped", [False, True], ids=["off to on", "on to off"])
def test_the_faster_setting_pays_for_its_first_call_whichever_comes_first(swapped: bool) -> None:
    slow, fast = ArmSample(2e-3, 0.102), ArmSample(1e-3, 0.501)
    pairs = [Pair(fast, slow) if swapped else Pair(slow, fast)] * 3
    found = comparison.summarise(REQUEST, pairs, fresh_process=True, parameters={})
    assert found.verdict == ("slower" if swapped else "faster")
    assert found.break_even_calls == pytest.approx(400)


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (ArmSample(1e-3, 0.1), ArmSample(1e-3, 0.5), "no setting was shown to be faster"),
        (ArmSample(2e-3, 0.5), ArmSample(1e-3, 0.1), "first call takes no longer"),
        (ArmSample(2e-3, None), ArmSample(1e-3, 0.1), "not timed with both settings"),
    ],
)
def test_without_a_price_there_is_no_break_even_and_the_reason_is_given(
    a: ArmSample, b: ArmSample, says: str
) -> None:
    found = comparison.summarise(REQUEST, [Pair(a, b)] * 3, fresh_process=True, parameters={})
    assert found.break_even_calls is None
    assert says in found.unavailable["break_even_calls"]


def test_medians_that_contradict_the_pairs_give_no_false_reason() -> None:
    """Each pair shows the second setting 10% faster, and the first one has the lower median."""
    slow = [4.4e-3, 1.1e-3, 1.1e-3, 1.1e-3, 4.4e-3]
    fast = [4.0e-3, 1.0e-3, 1.2e-3, 1.2e-3, 4.0e-3]
    pairs = [Pair(ArmSample(a, 0.1), ArmSample(b, 0.5)) for a, b in zip(slow, fast, strict=True)]
    found = comparison.summarise(REQUEST, pairs, fresh_process=True, parameters={})
    reason = found.unavailable.get("break_even_calls", "")
    assert "first call" not in reason


def _summarised(times: list[tuple[float, float]]) -> Comparison:
    pairs = [Pair(ArmSample(a, None), ArmSample(b, None)) for a, b in times]
    return comparison.summarise(REQUEST, pairs, fresh_process=False, parameters={})


@pytest.mark.parametrize(
    ("times", "reach"),
    [
        # Half of the blocks of one setting are slow.
        ([(4e-4, 8.4e-3)] * 13 + [(4e-4, 4e-4)] * 11, "0.048x to 1.00x"),
        # The pairs favor one setting, the medians the other.
        ([(1.0, 1.6), (2.0, 2.5), (3.0, 1.7), (0.9, 1.6), (2.0, 2.6), (2.1, 2.0)], "0.56x"),
        ([(1.0, 1.2), (1.0, 1.2), (4.0, 1.0)], "0.83x to 4.00x"),
    ],
)
def test_pairs_that_disagree_have_no_ratio(times: list[tuple[float, float]], reach: str) -> None:
    found = _summarised(times)
    assert found.verdict == "unclear"
    assert found.ratio is None
    assert found.unavailable["ratio"].startswith(f"the pairs disagree, {reach}")


@given(
    st.lists(st.tuples(st.floats(1e-4, 1e-1), st.floats(1e-4, 1e-1)), min_size=3, max_size=40),
    st.floats(0.2, 5),
    st.booleans(),
)
def test_a_ratio_never_contradicts_the_times_beside_it(
    times: list[tuple[float, float]], factor: float, related: bool
) -> None:
    """Whether the machine's speed drifts while its pairs agree, or the pairs are at random."""
    found = _summarised([(a, a / factor * (1 + b / 10)) for a, b in times] if related else times)
    if found.ratio is None:
        return
    one, other = (arm.median_s or 0.0 for arm in found.arms)
    assert found.ci95 is not None
    low, high = found.ci95
    quotient = one / other
    if found.verdict in ("faster", "slower"):
        assert (quotient > 1) is (found.verdict == "faster")
    assert low / 1.02 <= quotient <= high * 1.02 or quotient == pytest.approx(found.ratio)
    assert found.ratio / 1.12 <= quotient <= found.ratio * 1.12


def test_one_process_shows_no_first_calls() -> None:
    pairs = [Pair(ArmSample(2e-3, None), ArmSample(1e-3, None))] * 3
    found = comparison.summarise(REQUEST, pairs, fresh_process=False, parameters={})
    assert found.verdict == "faster"
    assert "their first calls are not known" in found.unavailable["break_even_calls"]


def test_warnings_of_the_runs_are_told_once_with_their_setting() -> None:
    job, told = ProcessesJob(REQUEST), None
    while not job.done:
        flags = job.next_request().flags
        noisy = replace(_result(1e-3, 0.1), flags=flags, warnings=("noisy",))
        told = job.apply(_came(Finished(noisy)))
    assert isinstance(told, Compared)
    assert sorted(told.comparison.warnings) == ["off: noisy", "on: noisy"]


def test_a_run_ended_after_its_time_was_taken_keeps_it() -> None:
    job = RunJob(Run("r", "matmul", "cpu", {}, {}))
    measured = _result(1e-3, 0.1)
    came = _came(Measured(measured))
    assert job.apply(came) is came
    told = job.end("cancelled", "cancelled")
    assert isinstance(told, Finished)
    assert told.result.time == measured.time
    assert told.result.status == "cancelled"


def test_a_run_that_is_done_stays_done_whatever_the_worker_says_after_it() -> None:
    job = RunJob(Run("r", "matmul", "cpu", {}, {}))
    job.apply(_finished(1e-3, 0.1))
    job.apply(_came(HostHeap(1, 0.0, None, None)))
    assert job.done


@pytest.mark.parametrize(
    ("job", "line"),
    [
        (
            RunJob(Run("r", "matmul", "cpu", {}, {})),
            b'{"type":"finished","result":"new"}\n',
        ),
        (BlocksJob(REQUEST), b'{"type":"compared","comparison":"new","done":true}\n'),
    ],
)
def test_a_result_goes_to_the_front_end_as_it_came_and_is_not_read_on_its_way(
    job: RunJob | BlocksJob, line: bytes
) -> None:
    told = job.apply(EncodedMessage(line, EVENTS))
    assert told.line == line
    assert job.done


def test_a_comparison_in_one_process_keeps_its_pairs_where_it_is_ended() -> None:
    so_far = replace(
        comparison.summarise(REQUEST, [], fresh_process=False, parameters={"size": 7}), pairs=5
    )
    job = BlocksJob(REQUEST)
    assert job.end("cancelled", "before it began").comparison.pairs == 0
    job.apply(_came(Compared(so_far, done=False)))
    told = job.end("cancelled", "the pairs so far are kept")
    assert told == Compared(
        replace(so_far, status="cancelled", reason="the pairs so far are kept"), done=True
    )
