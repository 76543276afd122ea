"""What cannot be and what was throttled is said in words wherever a result is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import compared, comparison, ran, result
from tui.cli import command_output
from tui.cli.command_output import results_text
from tui.kit.lines import plain
from tui.runs.state.runs import Conditions
from tui.runs.views.backend import view
from tui.runs.views.detail import detail_lines
from tui.state.events import ConditionsSeen
from tui.state.store import Store
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


def _detail(store: Store) -> str:
    return "\n".join(plain(row) for row in detail_lines(store, "matmul", 100))


def _json(store: Store) -> dict[str, Any]:
    (found,) = command_output.results_as_json(store, list(store.runs.values()))["results"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("basis", "word"), KINDS)
def test_a_rate_above_its_limit_is_called_so_in_detail_text_and_json(
    basis: Basis, word: str
) -> None:
    store = make_store("one gpu", *ran(limit=Limit("float32", 1e12, 1.9, "told", basis)))
    kind = "ceiling" if basis == "measured" else "peak"
    text = results_text(store, list(store.runs.values()))
    assert f"! 190% of float32 {kind}, {word}" in text
    assert f"! {word}" in _detail(store)
    assert _json(store)["limit"]["exceeded"] is True


def test_a_rate_below_its_limit_is_not() -> None:
    store = make_store("one gpu", *ran())
    text = results_text(store, list(store.runs.values()))
    assert "impossible" not in text
    assert "impossible" not in _detail(store)
    assert _json(store)["limit"]["exceeded"] is False


def test_a_throttled_run_is_marked_in_detail_text_and_json() -> None:
    store = make_store("one gpu", *ran(), ConditionsSeen(result().id, HOT))
    text = results_text(store, list(store.runs.values()))
    assert "warning: throttled: hw_thermal_slowdown" in text
    assert "! throttled: hw_thermal_slowdown" in _detail(store)
    assert _json(store)["conditions"]["throttle"] == ["hw_thermal_slowdown"]


def test_a_throttled_comparison_is_marked_in_its_pane_text_and_json() -> None:
    store = make_store("one gpu", *compared(), ConditionsSeen(comparison().id, HOT))
    (state,) = store.comparisons.values()
    text = command_output.comparison_text(state)
    assert "warning: throttled: hw_thermal_slowdown" in text
    assert "\n    slower 0.667x ╌" in text
    pane = "\n".join(plain(row) for row in view(store, None, 100).lines)
    assert "! throttled: hw_thermal_slowdown" in pane
    found = command_output.comparison_as_json(store.environment, state)
    assert found["conditions"]["throttle"] == ["hw_thermal_slowdown"]
