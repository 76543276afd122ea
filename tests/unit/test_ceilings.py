"""Ceilings: which one holds, how one is measured, kept and passed on, and what exceeds one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import one_thread, ran_under
from tests.tiers import VARIANT, with_variants
from tui.core import state_folder
from workloads import catalog
from workloads.declare.place import Place
from workloads.declare.study import Study
from workloads.declare.workload import Case, forget, workload
from workloads.limits import limit_lookup
from workloads.limits.ceilings import Ceilings, newest
from workloads.measure import cpu_share, environment, torch_state
from workloads.measure.clocks import HostClock, TimedBlock
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.results import COPY, Ceiling, Figure, Limit, Rates, RunResult
from workloads.runner import execute, reporting

assert catalog
CPU = torch.device("cpu")


def _ceiling(kind: str = "float32", value: float = 1e9, at: float = 1.0, **under: str) -> Ceiling:
    return Ceiling(kind, value, "told", at, under)


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_lookup, "LONGEST_CALL_S", 0.02)
    monkeypatch.setattr(
        limit_lookup, "measure_ceiling", partial(limit_lookup.measure_ceiling, seconds=0.05)
    )


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread: a ceiling holds for a number of threads."""
    with one_thread():
        yield


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def _run(ceilings: Ceilings | None, **parameters: int) -> RunResult:
    return ran_under(Control(), "matmul", parameters, ceilings=ceilings)


def test_a_ceiling_holds_under_the_conditions_it_was_measured_under_alone() -> None:
    ceilings = Ceilings()
    ceilings.learn([_ceiling(threads="2"), _ceiling(threads="4", value=2e9)])
    found = ceilings.find("float32", {"threads": "4"})
    assert found is not None
    assert found.value == 2e9
    assert ceilings.find("float32", {"threads": "8"}) is None
    assert ceilings.find(COPY, {"threads": "4"}) is None


@given(
    st.lists(
        st.builds(
            _ceiling,
            st.sampled_from(["float32", COPY]),
            st.floats(1, 1e15),
            st.floats(0, 2e9),
            threads=st.sampled_from(["1", "2"]),
        )
    )
)
def test_one_of_each_kind_and_condition_is_kept_the_newest(ceilings: list[Ceiling]) -> None:
    left = newest(ceilings)
    assert not any(item.disturbed for item in left)
    keys = [(item.kind, item.under["threads"]) for item in left]
    assert len(set(keys)) == len(keys)
    for item in ceilings:
        (same,) = (other for other in left if (other.kind, other.under) == (item.kind, item.under))
        assert same.measured_at >= item.measured_at


def test_a_disturbed_ceiling_does_not_replace_a_higher_undisturbed_one() -> None:
    quiet = _ceiling(value=2e9, at=1.0)
    low, high = (replace(_ceiling(value=value, at=2.0), disturbed=True) for value in (1e9, 3e9))
    assert newest([quiet, low]) == (quiet,)
    assert newest([quiet, high]) == (high,)
    assert newest([low, replace(quiet, measured_at=3.0)])[0].value == 2e9


def test_conditions_name_what_a_ceiling_depends_on() -> None:
    under = limit_lookup.conditions(CPU)
    assert under["threads"] == str(torch.get_num_threads())
    assert under["torch"] == torch.__version__
    assert {"host", "cpu", "cpus"} <= set(under)


@pytest.mark.parametrize("kind", with_variants(["float32"], ["float64", COPY]))
def test_a_ceiling_of_this_cpu_is_measured_with_flags_as_torch_has_them(kind: str) -> None:
    torch_state.apply_flags({"mkldnn.enabled": False})
    try:
        found = limit_lookup.best_rate(kind, Place("cpu"), HostClock(), Control(), seconds=0.1)
        assert not torch_state.BY_NAME["mkldnn.enabled"].get()
    finally:
        torch_state.apply_flags(torch_state.DEFAULTS)
    assert found.value > 1e6
    assert "best of" in found.how
    assert found.under == limit_lookup.conditions(CPU)


class ToldClock:
    """A clock whose blocks take the seconds told for each size, the last of them for ever.

    Args:
        seconds: of a call with matrices of so many rows, one after the other.
    """

    def __init__(self, **seconds: Sequence[float]) -> None:
        self._seconds = {name: iter([*told, *[told[-1]] * 1000]) for name, told in seconds.items()}
        self.asked: list[str] = []
        """The sizes in turn."""

    def synchronize(self) -> None:
        return None

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        product = call()
        assert isinstance(product, torch.Tensor)
        size = f"n{len(product)}"
        self.asked.append(size)
        seconds = next(self._seconds[size]) * calls
        return TimedBlock(seconds, None, seconds)


LOOKS = 3
"""Blocks of each size before it is timed."""


def test_the_best_block_counts_and_the_slow_ones_do_not() -> None:
    # A second is too long for twice the size to be tried.
    clock = ToldClock(n256=[1.0] * LOOKS + [2.0, 1.0, 4.0, 7.0])
    found = limit_lookup.best_rate("float32", Place("cpu"), clock, Control(), seconds=14.0)
    assert found.value == 2 * 256**3
    assert "256 x 256 matrix product, best of 4 blocks" in found.how


def test_the_time_is_for_those_close_to_the_first_and_then_for_the_best_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit_lookup, "LONGEST_CALL_S", 100.0)
    # For the same work at a first look, the larger ones take 1.4 and 1.6 times as long as the
    # first; later the second one is the best of those close to the first.
    clock = ToldClock(
        n256=[1.0] * LOOKS + [1.2],
        n512=[8 * 1.4] * LOOKS + [8 * 1.1],
        n1024=[64 * 1.6] * LOOKS + [64 * 0.1],
    )
    found = limit_lookup.best_rate("float32", Place("cpu"), clock, Control(), seconds=30.0)
    assert found.value == pytest.approx(2 * 256**3 / 1.1)
    timed = clock.asked[3 * LOOKS :]
    assert set(timed[:4]) == {"n256", "n512"}
    assert set(timed[4:]) == {"n512"}
    assert f"512 x 512 matrix product, best of {len(timed)} blocks" in found.how


def test_a_cancel_is_heard_while_a_ceiling_is_measured() -> None:
    class Ended(Control):
        def report(self, *_args: object, **_more: object) -> None:
            raise Cancelled

    asked = limit_lookup.LimitQuery("float32", 1e9)
    found = limit_lookup.measure(asked, CPU, HostClock(), Ended(), Ceilings())
    assert found == "cancelled before a ceiling was measured"


@VARIANT
def test_a_cpu_product_is_held_against_a_ceiling_that_is_measured_once() -> None:
    told: list[Ceiling] = []
    ceilings = Ceilings(told.append)
    first = _run(ceilings, n=256)
    assert first.limit is not None
    assert (first.limit.name, first.limit.basis) == ("float32", "measured")
    assert "limit" not in first.unavailable
    assert told[0].kind == "float32"
    if not first.limit.exceeded:
        count = len(told)
        again = _run(ceilings, n=64)
        assert again.limit is not None
        assert len(told) == count


def test_without_a_place_for_ceilings_none_is_measured_and_the_reason_says_how() -> None:
    result = _run(None, n=64)
    assert result.limit is None
    assert result.unavailable["limit"] == execute.UNMEASURED


def test_a_ceiling_that_is_exceeded_is_measured_again() -> None:
    told: list[Ceiling] = []
    ceilings = Ceilings(told.append)
    low = Ceiling("float32", 1e6, "while the box was busy", 1.0, limit_lookup.conditions(CPU))
    ceilings.learn([low])
    result = _run(ceilings, n=256)
    assert told
    assert result.limit is not None
    assert result.limit.value > 1e6


def _held_against(fraction: float, basis: str) -> RunResult:
    limit = Limit("float32", 1e9, fraction, "told", basis, 0.03)  # type: ignore[arg-type]
    return reporting.add_impossible_warnings(
        RunResult("r", "matmul", "cpu", {}, {}, "ok", limit=limit, rates=Rates(1.0, None, None))
    )


@given(st.floats(0.01, 3), st.sampled_from(["published", "derived", "measured"]))
def test_what_lies_above_its_limit_and_only_that_is_marked(fraction: float, basis: str) -> None:
    warnings = _held_against(fraction, basis).warnings
    assert bool(warnings) is (fraction > 1.03)
    if warnings:
        word = "ceiling measured here" if basis == "measured" else "impossible"
        assert word in warnings[0]


def _limit(fraction: float, name: str = "float32") -> Limit:
    return Limit(name, 1e9, fraction, "told", "published", 0.03)


def test_of_the_further_rates_above_a_limit_the_highest_is_named() -> None:
    result = RunResult("r", "attention", "cuda:0", {}, {}, "ok", limit=_limit(0.9))
    others = [
        ("math", _limit(0.5)),
        ("flash", _limit(2.0)),
        ("cuDNN", _limit(1.5)),
        ("the copy", _limit(1.02, "memory bandwidth")),
    ]
    (warning,) = reporting.add_impossible_warnings(result, others).warnings
    assert warning.startswith("flash: 200% of the limit is impossible")


def test_a_rate_that_a_study_found_above_the_runs_limit_is_flagged() -> None:
    @workload(group="health", title="fast", about="Fast.", look_for="Too fast.")
    def too_fast(on: Place) -> Case:
        a = on.randn(8)

        def timed() -> object:
            return a + 1

        def study(found: Study) -> None:
            found.check_rate("slow way", 1e6)
            found.check_rate("fast way", 1e21)
            found.check_rate("of another kind", 1e21, "float64")

        return Case(timed, flop=8, precision="float32", study=study)

    ceilings = Ceilings()
    ceilings.learn([Ceiling("float32", 1e15, "told", 1.0, limit_lookup.conditions(CPU))])
    try:
        result = ran_under(Control(), "too_fast", {}, ceilings=ceilings)
    finally:
        forget("too_fast")
    assert result.status == "ok", result.reason
    flagged = [text for text in result.warnings if "way" in text or "another" in text]
    assert [text.partition(":")[0] for text in flagged] == ["fast way"]
    assert "of the ceiling measured here" in flagged[0]


def test_the_naive_rate_is_called_impossible_only_above_the_limits_own_error() -> None:
    def warned(naive: float | None) -> tuple[str, ...]:
        figures = {"naive_flop_per_s": Figure(naive, "FLOP/s")}
        result = RunResult(
            "r", "naive_timing", "cuda:0", {}, {}, "ok", limit=_limit(0.8), figures=figures
        )
        return reporting.add_impossible_warnings(result).warnings

    assert warned(2.5e9) == ("the naive rate is 2.5 times the float32 limit: impossible",)
    assert warned(1.02e9) == ()
    assert warned(0.7e9) == ()
    assert warned(None) == ()


def test_a_low_ceiling_for_others_were_at_work_is_told_with_the_result(state: Path) -> None:
    under = limit_lookup.conditions(CPU)
    ceilings = Ceilings()
    ceilings.learn([Ceiling("float32", 1e15, "told", 1.0, under, disturbed=True)])
    result = _run(ceilings, n=64)
    assert result.limit is not None
    assert result.limit.disturbed
    (warning,) = (text for text in result.warnings if text.startswith("its ceiling may be too low"))
    assert "other processes" in warning
    state_folder.store_ceiling(ceilings.known[0])
    assert not state.exists()


@VARIANT
def test_a_measurement_beside_busy_processes_is_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([cpu_share.CpuTime(0.0, 0.0), cpu_share.CpuTime(1e9, 0.0)])
    monkeypatch.setattr(cpu_share, "now", lambda: next(busy))
    found = limit_lookup.best_rate(COPY, Place("cpu"), HostClock(), Control(), seconds=0.01)
    assert found.disturbed
    assert "while others kept" in found.how


@pytest.mark.parametrize(("half", "full"), [(1e9, 4e9), (4e9, 1e9)])
def test_half_precision_on_a_cpu_is_held_against_the_faster_of_its_own_and_float32(
    half: float, full: float
) -> None:
    under = limit_lookup.conditions(CPU)
    asked = limit_lookup.LimitQuery("bfloat16", 2e9)
    ceilings = Ceilings()
    ceilings.learn([Ceiling("bfloat16", half, "told", 1.0, under)])
    assert limit_lookup.find(asked, CPU, ceilings) is None
    ceilings.learn([Ceiling("float32", full, "told", 1.0, under)])
    limit = limit_lookup.find(asked, CPU, ceilings)
    assert limit is not None
    assert (limit.name, limit.value) == ("bfloat16", 4e9)
    assert ("in float32, which is faster here" in limit.source) is (full > half)
    assert limit_lookup.kinds_of_ceiling("bfloat16", "cuda") == ("bfloat16",)
    assert limit_lookup.kinds_of_ceiling("memory", "cpu") == (COPY,)
    assert limit_lookup.kinds_of_ceiling("pcie", "cuda") == ()


@pytest.mark.parametrize(
    ("case", "rates", "reason"),
    [
        (Case(lambda: None), Rates(None, None, 1.0), limit_lookup.NO_RATE),
        (
            Case(lambda: None, byte=1, byte_limit="pcie"),
            Rates(None, 1.0, None),
            "PCI Express is not what bounds cpu",
        ),
    ],
)
def test_a_rate_without_a_limit_says_why(case: Case, rates: Rates, reason: str) -> None:
    assert limit_lookup.queries(case, rates, CPU) == reason


def test_a_call_that_may_read_from_a_cache_is_not_compared_with_the_units_it_hardly_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One row times 8192 x 8192 weights of two bytes, on an H100 with a cache of 50 MiB."""
    monkeypatch.setattr(environment, "last_cache", lambda _: 50 * 2**20)
    size = 2 * 8192 * 8192
    case = Case(lambda: None, byte=size, precision="bfloat16", byte_limit="memory")
    reason = limit_lookup.queries(case, Rates(2.77e12, 2.77e12, None), CPU)
    assert reason == (
        "128 MiB a call can stay in the cache of 50 MiB: the memory's bandwidth is no limit for it"
    )
    # With 64 rows its operations may bound it.
    queries = limit_lookup.queries(case, Rates(171e12, 2.71e12, None), CPU)
    assert queries == (limit_lookup.LimitQuery("bfloat16", 171e12),)


# ---- kept by the front end ---------------------------------------------------------------------


def test_what_is_kept_is_read_again(state: Path) -> None:
    assert state_folder.ceilings() == ()
    first, second = _ceiling(threads="2"), _ceiling(COPY, threads="2", at=2.0)
    state_folder.store_ceiling(first)
    state_folder.store_ceiling(second)
    state_folder.store_ceiling(_ceiling(threads="2", value=3e9, at=3.0))
    assert [(item.kind, item.value) for item in state_folder.ceilings()] == [
        (COPY, 1e9),
        ("float32", 3e9),
    ]
    assert [path.name for path in state.iterdir()] == ["ceilings.json"]


def test_only_so_many_are_kept(state: Path) -> None:
    for number in range(state_folder.MOST_CEILINGS + 3):
        state_folder.store_ceiling(_ceiling(threads=str(number), at=float(number)))
    assert len(state_folder.ceilings()) == state_folder.MOST_CEILINGS
    assert state_folder.ceilings_path().parent == state


def test_a_file_that_is_not_ours_is_said_to_be_so_and_replaced(state: Path) -> None:
    state.mkdir()
    (state / "ceilings.json").write_text('{"type": "Nonsense"}\n')
    with pytest.raises(ValueError, match=r"ceilings\.json"):
        state_folder.ceilings()
    state_folder.store_ceiling(_ceiling())
    assert len(state_folder.ceilings()) == 1
