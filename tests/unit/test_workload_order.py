"""The table in another order: the largest first, what has no value last."""

from __future__ import annotations

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import busy, ran
from tui.runs.views.search import build_entries
from tui.runs.views.workload_columns import has_figures
from tui.runs.views.workload_table import (
    ORDERS,
    Group,
    Order,
    WorkloadRow,
    find_next_order,
    format_order,
    sort_entries,
)


def names(order: Order) -> list[str]:
    store = make_store("one gpu")
    busy(store)
    found = sort_entries(store.runs, build_entries(store.runs), order)
    assert order == ORDERS[0] or not any(isinstance(entry, Group) for entry in found)
    return [entry.workload for entry in found if isinstance(entry, WorkloadRow)]


def test_the_catalogues_own_order_leaves_the_groups() -> None:
    store = make_store("one gpu")
    assert sort_entries(store.runs, build_entries(store.runs), "catalogue") == build_entries(
        store.runs
    )


@pytest.mark.parametrize("order", ORDERS)
def test_no_workload_is_lost(order: Order) -> None:
    assert sorted(names(order)) == ["conv2d", "matmul", "mlp"]


def test_the_largest_value_comes_first_and_what_has_none_last() -> None:
    assert names("time") == ["mlp", "matmul", "conv2d"]
    assert names("speed-up")[0] == "matmul"
    assert names("of limit")[0] == "matmul"
    assert names("name") == ["conv2d", "matmul", "mlp"]


def test_without_results_nothing_moves() -> None:
    store = make_store("one gpu")
    rows = [entry for entry in build_entries(store.runs) if isinstance(entry, WorkloadRow)]
    assert sort_entries(store.runs, build_entries(store.runs), "time") == rows


def test_the_orders_go_round() -> None:
    store = make_store("one gpu")
    busy(store)
    order = ORDERS[0]
    for expected in (*ORDERS[1:], ORDERS[0]):
        order = find_next_order(store.runs, order)
        assert order == expected


def test_an_order_without_a_value_is_skipped() -> None:
    nothing = make_store("one gpu").runs
    assert find_next_order(nothing, "catalogue") == "name"
    assert find_next_order(nothing, "name") == "catalogue"
    alone = make_store("no gpu", *ran("matmul", "cpu", limit=None)).runs
    assert find_next_order(alone, "catalogue") == "time"
    assert find_next_order(alone, "time") not in ("speed-up", "of limit")


def test_the_title_names_the_order() -> None:
    assert [format_order(order) for order in ORDERS[1:4]] == [
        "by time",
        "by speed-up",
        "by share of limit",
    ]


def test_columns_without_a_figure_have_no_heading() -> None:
    store = make_store("one gpu")
    assert not has_figures(build_entries(store.runs))
    busy(store)
    assert has_figures(build_entries(store.runs))
