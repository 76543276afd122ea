"""A page of the demo: what it runs with, whose results it shows, what it says beside them."""

from __future__ import annotations

from tests.screens.helpers import hello, make_store, workload
from tests.screens.results import DEFAULTS, ran
from tui.state.events import AnyEvent, FlagSet, ParametersSet, RunQueued, SweepSet
from tui.state.store import Store
from tui.state.sweep import Sweep
from tui.ui.views.demo import headline_lines, page_lines
from tui.ui.views.lines import plain
from tui.ui.views.workload_table import row


def headline(store: Store, note: str = "", cells: int = 100) -> list[str]:
    return [plain(line) for line in headline_lines(store, store.catalogue[0], cells, note)]


def demo_ran(device: str = "cpu", **changes: object) -> list[AnyEvent]:
    request, done = ran("matmul", device, id="demo", **changes)
    assert isinstance(request, RunQueued)
    fields = {**request.request.__dict__, "id": "demo"}
    return [RunQueued(type(request.request)(**fields), demo=True), done]


def test_the_parameters_are_named_with_their_values() -> None:
    assert headline(make_store("no gpu"))[0] == (
        "matmul  size = 4096  dtype = float32  (the defaults)"
    )


def test_a_workload_without_parameters_says_so() -> None:
    store = make_store("no gpu", hello(workload(parameters=())))
    assert headline(store)[0] == "matmul  no parameters"


def test_what_the_table_has_instead_is_named() -> None:
    store = make_store("no gpu", ParametersSet("matmul", {**DEFAULTS, "dtype": "float16"}))
    assert headline(store)[:2] == [
        "matmul  size = 4096  dtype = float32  (the defaults)",
        "your table has dtype = float16: not used here",
    ]
    points = tuple({**DEFAULTS, "size": size} for size in (64, 128))
    store.apply(SweepSet("matmul", Sweep({"size": "64,128"}, points)))
    assert headline(store)[1] == "your table has size = 64,128: not used here"


def test_flags_that_act_and_are_switched_are_named() -> None:
    store = make_store("one gpu", FlagSet("cudnn.benchmark", True))
    assert not any("flags" in words for words in headline(store))
    store.apply(hello(workload(group="convolution")))
    assert "flags that are not at their default: cudnn.benchmark is on" in headline(store)


def test_a_note_comes_last() -> None:
    assert headline(make_store("no gpu"), "cancelled: the run")[-1] == "cancelled: the run"


def test_demo_and_table_each_show_their_own_runs() -> None:
    mine = ran("matmul", "cpu", median=0.5)
    for events in ([*mine, *demo_ran(median=0.25)], [*demo_ran(median=0.25), *mine]):
        store = make_store("no gpu", *events)
        assert any("250 ms" in words for words in headline(store))
        assert row(store, store.catalogue[0]).cells["cpu"].text == "500 ms"


def test_where_the_user_has_no_run_the_demo_s_stands_in_unless_it_was_cancelled() -> None:
    store = make_store("no gpu", *demo_ran(median=0.25))
    assert row(store, store.catalogue[0]).cells["cpu"].text == "250 ms"
    store = make_store("no gpu", *demo_ran(status="cancelled", time=None))
    assert plain(row(store, store.catalogue[0]).state) == "not run"
    store = make_store("no gpu", *demo_ran(median=0.25))
    store.apply(ParametersSet("matmul", {**DEFAULTS, "size": 64}))
    assert plain(row(store, store.catalogue[0]).state) == "not run"


def test_a_demo_that_may_not_run_shows_what_the_user_ran_with_the_defaults() -> None:
    store = make_store("no gpu", *ran("matmul", "cpu", median=0.5))
    assert any("500 ms" in words for words in headline(store))
    assert any("too fast" in plain(line) for line in page_lines(store, store.catalogue[0], 100))
