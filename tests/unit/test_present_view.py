"""A page of the presentation: its size, what it runs with, whose results it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import hello, make_store, workload
from tests.screens.results import DEFAULTS, ran
from tui.core.text import glyphs
from tui.kit.lines import TextStyle, plain, width
from tui.recordings.lines import AnyEvent
from tui.runs.state.events import FlagSet, ParametersSet, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import WorkbenchState
from tui.runs.views.present import (
    PageNumber,
    compose_page,
    format_number,
    headline_lines,
    is_waiting,
    number_lines,
    page_lines,
)
from tui.runs.views.source import code_lines
from tui.runs.views.workload_table import build_row
from workloads.protocol.messages import Finished, Measured, Progress
from workloads.protocol.results import Chart, Check, Series


def headline(state: WorkbenchState, note: str = "", cells: int = 100) -> list[str]:
    return [
        plain(line) for line in headline_lines(state.runs, state.runs.catalogue[0], cells, note)
    ]


def demo_ran(device: str = "cpu", **changes: object) -> list[AnyEvent]:
    number = f"demo {device}"
    request, done = ran("matmul", device, id=number, **changes)
    assert isinstance(request, RunQueued)
    return [RunQueued(replace(request.request, id=number), demo=True), done]


def test_the_parameters_are_named_with_their_values() -> None:
    assert headline(make_store("no gpu"))[0] == (
        "matmul  size = 4096  dtype = float32  (the defaults, not stored)"
    )


def test_a_workload_without_parameters_says_so() -> None:
    state = make_store("no gpu", hello(workload(parameters=())))
    assert headline(state)[0] == "matmul  no parameters, not stored"


def test_what_the_table_has_instead_is_named() -> None:
    state = make_store("no gpu", ParametersSet("matmul", {**DEFAULTS, "dtype": "float16"}))
    assert headline(state)[:2] == [
        "matmul  size = 4096  dtype = float32  (the defaults, not stored)",
        "your table has dtype = float16: not used here",
    ]
    points = tuple({**DEFAULTS, "size": size} for size in (64, 128))
    state.publish(SweepSet("matmul", Sweep({"size": "64,128"}, points)))
    assert headline(state)[1] == "your table has size = 64,128: not used here"


def test_flags_that_act_and_are_switched_are_named() -> None:
    state = make_store("one gpu", FlagSet("cudnn.benchmark", True))
    assert not any("flags" in words for words in headline(state))
    state.publish(hello(workload(convolutions="only")))
    assert "flags that are not at their default: cudnn.benchmark is on" in headline(state)


def test_a_note_comes_last() -> None:
    assert headline(make_store("no gpu"), "cancelled: the run")[-1] == "cancelled: the run"


def test_demo_and_table_each_show_their_own_runs() -> None:
    mine = ran("matmul", "cpu", median=0.5)
    for events in ([*mine, *demo_ran(median=0.25)], [*demo_ran(median=0.25), *mine]):
        state = make_store("no gpu", *events)
        assert any("250 ms" in words for words in headline(state))
        assert build_row(state.runs, state.runs.catalogue[0]).cells["cpu"].text == "500 ms"


def test_where_the_user_has_no_run_the_demo_s_stands_in_unless_it_was_cancelled() -> None:
    state = make_store("no gpu", *demo_ran(median=0.25))
    assert build_row(state.runs, state.runs.catalogue[0]).cells["cpu"].text == "250 ms"
    state = make_store("no gpu", *demo_ran(status="cancelled", time=None))
    assert plain(build_row(state.runs, state.runs.catalogue[0]).state) == ""
    state = make_store("no gpu", *demo_ran(median=0.25))
    state.publish(ParametersSet("matmul", {**DEFAULTS, "size": 64}))
    assert plain(build_row(state.runs, state.runs.catalogue[0]).state) == ""


def test_a_demo_that_may_not_run_shows_what_the_user_ran_with_the_defaults() -> None:
    state = make_store("no gpu", *ran("matmul", "cpu", median=0.5))
    assert any("500 ms" in words for words in headline(state))
    rows = [plain(line) for line in page_lines(state.runs, state.runs.catalogue[0], 100)]
    assert any(row.startswith("What it found ") for row in rows)
    assert any("naive timing too fast by  118x  right time" in row for row in rows)


def test_the_page_s_number_is_the_speed_up_or_the_one_time() -> None:
    state = make_store("one gpu")
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber()
    state = make_store("one gpu", *demo_ran(median=0.25))
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber(
        "250 ms", "for a call on cpu", TextStyle.OTHERS
    )
    state = make_store("one gpu", *demo_ran(median=0.25), *demo_ran("cuda:0", median=0.005))
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber(
        "50.0x", "as fast on cuda:0 as on cpu", TextStyle.GOOD
    )
    assert "50.0x as fast on cuda:0 as on cpu" in headline(state)
    large = headline_lines(state.runs, state.runs.catalogue[0], 100, large=True)
    assert not any("as fast" in plain(line) for line in large)


def test_a_loss_is_the_speed_up_of_the_cpu_and_a_wrong_time_is_no_number() -> None:
    state = make_store("one gpu", *demo_ran(median=0.25), *demo_ran("cuda:0", median=0.625))
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber(
        "2.50x", "as fast on cpu as on cuda:0", TextStyle.NOTE
    )
    wrong = Check(False, 0.5, 1e-4, "in float64 on the CPU")
    state = make_store("one gpu", *demo_ran(median=0.25, check=wrong))
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber()


def test_the_number_is_large_in_its_color_and_centered() -> None:
    number = PageNumber("50.0x", "as fast on cuda:0 as on cpu", TextStyle.GOOD)
    *digits, label = number_lines(number, 80)
    assert len(digits) == 3
    assert {row[-1].style for row in digits} == {TextStyle.GOOD}
    before = len(plain(digits[0])) - len(plain(digits[0]).lstrip())
    assert abs(before - (80 - width(digits[0][1:])) // 2) <= 1
    assert plain(label).strip() == "as fast on cuda:0 as on cpu"
    assert number_lines(number, 20) == number_lines(PageNumber(), 80) == []


def test_many_warnings_are_counted() -> None:
    state = make_store("no gpu", *demo_ran(warnings=("noisy: a", "noisy: b", "c", "d")))
    assert "! noisy: 4 warnings" in headline(state)
    state = make_store("no gpu", *demo_ran(warnings=("hot",)))
    assert "! hot" in headline(state)


@pytest.mark.parametrize(
    "status", [{"status": "failed", "reason": "broken"}, {"status": "cancelled"}]
)
def test_figures_stand_apart_from_how_the_run_ended(status: dict[str, str]) -> None:
    rows = headline(make_store("no gpu", *demo_ran(**status)))
    words = next(row for row in rows if row.startswith("cpu"))
    assert f"  {status['status']}" in words


def test_code_stands_beside_the_prose_where_none_of_its_lines_is_wrapped() -> None:
    about = "Adds two numbers. " + "The rest comes later. " * 20
    state = make_store("no gpu", hello(workload(about=about)))
    rows = [plain(line) for line in page_lines(state.runs, state.runs.catalogue[0], 116)]
    assert rows[0].startswith("Adds two numbers.")
    assert "What is timed" in rows[0]
    state = make_store("no gpu", hello(workload(about=about, code="a = b" + " + b" * 20)))
    rows = [plain(line) for line in page_lines(state.runs, state.runs.catalogue[0], 116)]
    assert not any("Adds" in row and "timed" in row for row in rows)


def test_a_wrong_result_has_no_speed_up() -> None:
    wrong = Check(False, 0.5, 1e-4, "in float64 on the CPU")
    state = make_store(
        "one gpu", *demo_ran(median=0.25), *demo_ran("cuda:0", median=0.005, check=wrong)
    )
    assert format_number(state.runs, state.runs.catalogue[0])[0] == ""
    assert "no speed-up: a check failed, or the devices did not do the same work" in headline(state)
    rows = headline(state)
    assert "50.0x" not in " ".join(rows)
    # Two bars would claim one, too.
    assert not any("█" in row for row in rows)
    assert any(row.startswith("cuda:0") and "check failed" in row for row in rows)


def test_the_bars_are_on_the_scale_of_the_longest_time() -> None:
    state = make_store("one gpu", *demo_ran(median=0.2), *demo_ran("cuda:0", median=0.05))
    rows = headline(state)
    cpu, gpu = (next(words for words in rows if words.startswith(name)) for name in ("cpu", "cuda"))
    assert cpu.count("█") > 20
    assert abs(cpu.count("█") - 4 * gpu.count("█")) <= 4
    assert all(len(words) <= 100 for words in rows)
    # Where there is no room for a bar the figures are there all the same.
    narrow = headline(state, cells=40)
    assert not any("█" in words for words in narrow)
    assert any("200 ms" in words for words in narrow)


def test_what_a_run_waits_for_is_said_beside_a_turning_mark() -> None:
    queued, done = demo_ran()
    state = make_store("one gpu", queued)
    info = state.runs.catalogue[0]
    assert is_waiting(state.runs, info)
    marks = set()
    for tick in range(10):
        (words,) = [
            plain(line)
            for line in headline_lines(state.runs, info, 100, tick=tick)
            if "waits for its turn" in plain(line)
        ]
        marks.add(words.split()[1])
    assert len(marks) == 10
    (other, _), number = ran("mlp", "cpu", id="other"), "other"
    assert isinstance(other, RunQueued)
    state.publish(replace(other, request=replace(other.request, id=number)))
    state.publish(Progress(number, "preparing", 0.1, "cpu"))
    assert any("waits for mlp on cpu" in words for words in headline(state))
    state.publish(Progress("demo cpu", "measuring", 0.1, "cpu", blocks=7))
    assert any("block 7" in words for words in headline(state))
    state.publish(done)
    assert not is_waiting(state.runs, info)
    assert not any("waits" in words for words in headline(state))


def test_the_explanation_is_short_and_before_the_code() -> None:
    about = "Adds two numbers. They are small."
    words = "One comes first. `Two` is 1.5 times as much. Three ends it."
    short = "One comes first. `Two` is 1.5 times as much."
    state = make_store("no gpu", hello(workload(look_for=words, about=about)))
    rows = [plain(line) for line in page_lines(state.runs, state.runs.catalogue[0], 90)]
    assert rows[:4] == ["Adds two numbers.", f"Look for: {short}", "", "What is timed"]


def in_a_page(state: WorkbenchState, cells: int, rows: int) -> list[str]:
    page = compose_page(state.runs, state.runs.catalogue[0], cells, rows)
    return [plain(line) for line in (*page.top, *page.body)]


@pytest.mark.parametrize(
    ("size", "digits", "thick"),
    [((77, 22), 3, 1), ((117, 38), 9, 3), ((197, 53), 12, 3), ((77, 17), 0, 1)],
)
def test_figure_and_bars_grow_with_the_screen_and_the_rest_is_spread(
    size: tuple[int, int], digits: int, thick: int
) -> None:
    state = make_store("one gpu", *demo_ran(median=0.2), *demo_ran("cuda:0", median=0.05))
    rows = in_a_page(state, *size)
    end = next(at for at, row in enumerate(rows) if row.strip().startswith("matmul"))
    drawn = [row for row in rows[:end] if row.strip()]
    assert len([row for row in drawn if {*row} <= {*" █▀▄"}]) == digits
    assert len([row for row in rows[end:] if "██" in row]) == 2 * thick
    assert all(len(row) <= size[0] for row in rows)
    if size[1] > 30:
        before = next(at for at, row in enumerate(rows) if row.strip())
        assert abs(before - (size[1] - len(rows))) <= 3


def test_the_plot_of_a_page_fills_it() -> None:
    series = Series("x", "s", (1.0, 2.0, 4.0))
    chart = Chart("c", "a curve", "n", (1.0, 2.0, 3.0), (series,))
    state = make_store("no gpu", *demo_ran(charts=(chart,), figures={}))
    heights = []
    for size in ((77, 22), (117, 38), (197, 53)):
        rows = in_a_page(state, *size)
        assert next(at for at, row in enumerate(rows) if "a curve" in row) < size[1] // 3
        heights.append(sum(row.lstrip("0123456789. ")[:1] in "│┤" for row in rows if row.strip()))
        assert len(rows) >= size[1] - 3
    assert heights == sorted(heights)
    assert heights[-1] > 20


def test_before_the_first_time_the_page_keeps_its_place_and_then_shows_the_estimate() -> None:
    queued, done = demo_ran()
    state = make_store("one gpu", queued)
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber(
        "––", "not measured yet", TextStyle.QUIET
    )
    state.publish(Progress("demo cpu", "measuring", 0.1, "cpu", blocks=7, estimate_s=0.25))
    assert format_number(state.runs, state.runs.catalogue[0]) == PageNumber(
        "250 ms", "so far on cpu", TextStyle.KEY
    )
    assert isinstance(done, Finished)
    state.publish(Measured(done.result))
    state.publish(Progress("demo cpu", "checking", 0.1, "cpu"))
    measured = format_number(state.runs, state.runs.catalogue[0])
    assert (measured.words, measured.of) == ("2.71 ms", "so far on cpu")


def test_where_nothing_is_measured_nothing_is_drawn() -> None:
    rows = in_a_page(make_store("one gpu"), 117, 38)
    assert not any("█" in row or "▀" in row for row in rows)
    assert sum("not measured" in row for row in rows) == 2


def test_prose_stays_narrow_on_a_wide_screen() -> None:
    many = "Some words follow one another " * 20
    state = make_store("no gpu", hello(workload(look_for=many, about=many)))
    rows = [plain(line) for line in page_lines(state.runs, state.runs.catalogue[0], 200)]
    assert 80 < max(len(row.partition("   ")[0]) for row in rows) <= 90


def test_code_is_drawn_by_what_its_words_are() -> None:
    source = 'for i in range(3):\n\tx = "a" # why\n\n    y = x'
    rows = code_lines(source, 80)
    assert [plain(row) for row in rows] == [
        "  for i in range(3):",
        '      x = "a" # why',
        "",
        "      y = x",
    ]
    styles = {span.text.strip(): span.style for row in rows for span in row}
    assert styles["for"] == styles["in"] == TextStyle.KEY
    assert styles["range"] == TextStyle.CACHED
    assert styles["3"] == TextStyle.NOTE
    assert styles['"a"'] == TextStyle.GOOD
    assert styles["# why"] == TextStyle.QUIET


@pytest.mark.parametrize(("drawn", "mark"), [(glyphs.UNICODE, "↳"), (glyphs.ASCII, ">")])
def test_the_rest_of_a_long_line_of_code_is_marked(
    drawn: glyphs.Glyphs, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", drawn)
    source = 'def f():\n    print("a text of several words")'
    assert [plain(row) for row in code_lines(source, 24)] == [
        "  def f():",
        '      print("a text of',
        f'{mark}       several words")',
    ]


@given(st.text(alphabet="ab():\"'#\n\t @1=", max_size=60), st.integers(8, 60))
def test_code_is_drawn_whole_whatever_it_is(source: str, cells: int) -> None:
    drawn = "".join(plain(row) for row in code_lines(source, cells))
    drawn = drawn.replace(glyphs.GLYPHS.continued, "")
    assert "".join(drawn.split()) == "".join(source.split())
