"""A study collects in order, keeps what it has when it is ended, and judges ways in turns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.declare.study import Study
from workloads.declare.tools import Call, ClockName, MemoryInUse
from workloads.measure.cpu_share import Others
from workloads.measure.timing import Cancelled
from workloads.protocol import wire
from workloads.protocol.results import Ceiling, Limit

HELD = MemoryInUse(10, 20, 30, None, {"nvml": "the CPU's memory is not NVML's"})


class Scripted:
    """Tools whose every measurement is told beforehand."""

    def __init__(self, rounds: Sequence[Sequence[float]] = (), looks: int | None = None) -> None:
        self._rounds = [list(times) for times in rounds]
        self._looks = looks
        self.beside = Others()

    def time(self, call: Call, clock: ClockName) -> float:
        call()
        return 0.5 if clock == "wall" else 0.25

    def rounds(self, _calls: Sequence[Call], _clock: ClockName) -> list[list[float]]:
        return self._rounds

    def watched(self) -> AbstractContextManager[None]:
        return nullcontext()

    def others(self) -> Others:
        others, self.beside = self.beside, Others()
        return others

    def peak(self, _call: Call) -> int | None:
        return None

    def memory_in_use(self) -> MemoryInUse:
        return HELD

    def ceiling(self, kind: str) -> Ceiling:
        return Ceiling(kind, 1e9, "told beforehand", 0.0, {})

    def limit(self, _kind: str, rate: float) -> Limit | None:
        return Limit("float32", 4 * rate, 0.25, "told beforehand")

    def check_cancelled(self) -> None:
        if self._looks is not None:
            self._looks -= 1
            if self._looks < 0:
                raise Cancelled


def _study(tools: Scripted) -> Study:
    return Study(1.0, "device", tools, lambda _study: None)


def _nothing() -> None:
    return None


def test_a_time_is_by_the_main_clock_unless_another_is_named() -> None:
    study = _study(Scripted())
    assert study.time(_nothing) == 0.25
    assert study.time(_nothing, "wall") == 0.5


def test_variants_become_a_table_that_holds_each_against_the_first() -> None:
    study = _study(Scripted([[2.0, 1.0]] * 12))
    found = study.variants("ways", "two ways", {"slow": _nothing, "fast": _nothing})
    assert [variant.verdict for variant in found] == ["", "faster"]
    (table,) = study.tables
    assert [column.name for column in table.columns] == [
        "variant", "time", "speed-up", "interval", "verdict"
    ]  # fmt: skip
    assert table.rows[0] == ("slow", 2.0, 1.0, "", "")
    assert table.rows[1] == ("fast", 1.0, 2.0, "2 to 2", "faster")


def test_a_factor_without_a_clear_difference_is_unknown_and_says_why() -> None:
    study = _study(Scripted([[2.0, 1.0], [1.0, 2.0]] * 6))
    _, second = study.variants("ways", "", {"one": _nothing, "other": _nothing})
    study.factor("gain", second.ratio, second)
    assert study.figures["gain"].value is None
    assert study.unavailable["figures.gain"] == "no clear difference"
    clear = _study(Scripted([[2.0, 1.0]] * 12))
    _, second = clear.variants("ways", "", {"slow": _nothing, "fast": _nothing})
    clear.factor("gain", second.ratio, second)
    assert clear.figures["gain"].value == 2.0


def test_a_peak_that_is_not_known_is_an_empty_cell_and_no_zero() -> None:
    study = _study(Scripted([[1.0]] * 12))
    study.variants("ways", "", {"one": _nothing}, per_call=(8.0, "byte/s"), peaks=True)
    assert study.tables[0].rows[0] == ("one", 1.0, 8.0, None, 1.0, "", "")


def test_a_staircase_is_a_table_and_a_chart_and_says_why_a_value_is_missing() -> None:
    study = _study(Scripted())
    step = study.staircase("stairs", "memory")
    assert step("allocate") == HELD
    step("del")
    assert [row[0] for row in study.tables[0].rows] == ["allocate", "del"]
    assert study.charts[0].labels == ("allocate", "del")
    assert study.charts[0].places == (1.0, 2.0)
    assert study.unavailable == {"tables.stairs.nvml": HELD.unavailable["nvml"]}


def test_what_was_found_before_a_cancel_stays() -> None:
    study = _study(Scripted(looks=1))
    study.figure("first", 1.0)
    with pytest.raises(Cancelled):
        study.figure("second", 2.0)
    assert list(study.figures) == ["first", "second"]


def test_a_row_or_point_of_another_width_is_refused() -> None:
    study = _study(Scripted())
    study.table("t", "", "a", "b")
    study.chart("c", "", "n", ("time", "s"))
    with pytest.raises(ValueError, match="2 columns, not 1"):
        study.row("t", 1.0)
    with pytest.raises(ValueError, match="1 series, not 2"):
        study.point("c", 1.0, 1.0, 2.0)


@given(st.lists(st.tuples(st.floats(1, 1e6), st.none() | st.floats(0, 1e9)), max_size=8))
def test_a_chart_has_a_value_or_a_gap_for_each_place(
    points: list[tuple[float, float | None]],
) -> None:
    study = _study(Scripted())
    study.chart("c", "", "n", ("rate", "FLOP/s"))
    for place, value in points:
        study.point("c", place, value)
    chart = study.charts[0]
    assert chart.places == tuple(place for place, _ in points)
    assert chart.series[0].values == tuple(value for _, value in points)
    assert wire.from_plain(type(chart), wire.to_plain(chart)) == chart


def test_what_was_beside_the_times_is_held_against_the_table_that_shows_them() -> None:
    tools = Scripted()
    study = _study(tools)
    study.table("ways", "Ways", "way", ("time", "s"))
    study.table("held", "Held", "step", ("memory", "byte"))
    tools.beside = Others(2.0, 3.0)
    study.row("ways", "a", 1.0)
    study.row("ways", "b", 2.0)
    study.row("held", "a", 7)
    tools.beside = Others(2.0, 1.0)
    study.row("ways", "c", 3.0)
    study.figure("speed_up", 2.0, "x")
    assert study.beside == {"table ways": Others(4.0, 4.0), "figure speed_up": Others(2.0, 1.0)}
