"""What cannot be and what was throttled is said in words wherever a result is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import compared, comparison, ran, result
from tui.kit.lines import plain
from tui.runs.state.events import ConditionsRecorded
from tui.runs.state.runs import Conditions
from tui.runs.state.state import WorkbenchState
from tui.runs.views import result_text
from tui.runs.views.backend import build_view
from tui.runs.views.detail import detail_lines
from tui.runs.views.result_text import format_results
from workloads.protocol.results import Basis, Limit

HOT = Conditions(
    5, 1200, 1980.0, 690.0, 88.0, ("hw_thermal_slowdown",), None,
    ("throttled: hw_thermal_slowdown",),
)  # fmt: skip
KINDS: list[tuple[Basis, str]] = [
    ("published", "impossible rate"),
    ("derived", "impossible rate"),
    ("measured", "above its ceiling"),
]


def _detail(state: WorkbenchState) -> str:
    return "\n".join(plain(row) for row in detail_lines(state.runs, "matmul", 100))


def _json(state: WorkbenchState) -> dict[str, Any]:
    (found,) = result_text.encode_results(state.runs, list(state.runs.book.values()))["results"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("basis", "word"), KINDS)
def test_a_rate_above_its_limit_is_called_so_in_detail_text_and_json(
    basis: Basis, word: str
) -> None:
    state = make_store("one gpu", *ran(limit=Limit("float32", 1e12, 1.9, "told", basis)))
    kind = "ceiling" if basis == "measured" else "peak"
    text = format_results(state.runs, list(state.runs.book.values()))
    assert f"! 190% of float32 {kind}, {word}" in text
    assert f"! {word}" in _detail(state)
    assert _json(state)["limit"]["exceeded"] is True


def test_a_rate_below_its_limit_is_not() -> None:
    state = make_store("one gpu", *ran())
    text = format_results(state.runs, list(state.runs.book.values()))
    assert "impossible" not in text
    assert "impossible" not in _detail(state)
    assert _json(state)["limit"]["exceeded"] is False


def test_a_throttled_run_is_marked_in_detail_text_and_json() -> None:
    state = make_store("one gpu", *ran(), ConditionsRecorded(result().id, HOT))
    text = format_results(state.runs, list(state.runs.book.values()))
    assert "warning: throttled: hw_thermal_slowdown" in text
    assert "! throttled: hw_thermal_slowdown" in _detail(state)
    assert _json(state)["conditions"]["throttle"] == ["hw_thermal_slowdown"]


def test_a_throttled_comparison_is_marked_in_its_pane_text_and_json() -> None:
    state = make_store("one gpu", *compared(), ConditionsRecorded(comparison().id, HOT))
    (entry,) = state.runs.comparisons.values()
    text = result_text.format_comparison(entry)
    assert "warning: throttled: hw_thermal_slowdown" in text
    assert "\n    1.5x slower ╌" in text
    pane = "\n".join(plain(row) for row in build_view(state.runs, None, 100).lines)
    assert "! throttled: hw_thermal_slowdown" in pane
    found = result_text.encode_comparison(state.machine.environment, entry)
    assert found["conditions"]["throttle"] == ["hw_thermal_slowdown"]
