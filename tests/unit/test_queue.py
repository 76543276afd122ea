"""The runs that wait: how far they are, how long the rest may take, and what is asked before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.every_screen import CATALOGUE
from tests.screens.helpers import Kind, hello, make_store
from tests.screens.results import DEFAULTS, progress, queued, ran
from tui.core.text import glyphs
from tui.core.text.numbers import about
from tui.headless.rounds import ResultPrinter, format_progress
from tui.kit.command_line.progress import ProgressLine
from tui.kit.lines import plain, width
from tui.runs.state.events import SweepSet
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import WorkbenchState
from tui.runs.views.queue import (
    USUAL_S,
    Queue,
    build_queue,
    estimate_runs,
    format_quit_warning,
    format_run_all_question,
    make_runs,
    queue_line,
)
from workloads.protocol import messages
from workloads.protocol.results import UNTRUSTED


def took(seconds: float, workload: str = "matmul", device: str = "cpu") -> WorkbenchState:
    """Return a state in which one run has ended that took so many seconds."""
    return make_store("one gpu", *ran(workload, device, started_at=100.0, ended_at=100.0 + seconds))


def test_a_run_is_taken_to_last_as_long_as_the_same_did_before_or_as_others_there() -> None:
    state = took(3.0)
    runs = make_runs(state.runs, ["matmul", "mlp"])
    assert [(run.workload, run.device) for run in runs] == [
        ("matmul", "cpu"), ("matmul", "cuda:0"), ("mlp", "cpu"), ("mlp", "cuda:0"),
    ]  # fmt: skip
    found = estimate_runs(state.runs, runs[::2])
    assert (found.seconds, found.known, found.each_s, found.measured) == (6.0, 1, 3.0, True)
    found = estimate_runs(state.runs, runs)
    assert found.seconds == pytest.approx(6.0 + 2 * USUAL_S["normal"])
    assert not found.measured


@pytest.mark.parametrize(("kind", "device"), [("one gpu", "cuda:0"), ("no gpu", "cpu")])
def test_a_workload_runs_where_it_can_and_else_says_why(kind: Kind, device: str) -> None:
    state = make_store(kind, hello(*CATALOGUE))
    runs = make_runs(state.runs, ["cuda_graphs", "matmul"])
    found = [(run.workload, run.device) for run in runs if run.workload == "cuda_graphs"]
    assert found == [("cuda_graphs", device)]
    assert ("matmul", "cpu") in [(run.workload, run.device) for run in runs]


def test_a_cancelled_run_says_nothing_about_how_long_one_takes() -> None:
    state = make_store("one gpu", *ran(status="cancelled", started_at=1.0, ended_at=2.0))
    assert estimate_runs(state.runs, make_runs(state.runs, ["matmul"])).known == 0


def test_the_queue_counts_from_when_nothing_waited() -> None:
    state = took(3.0)
    assert build_queue(state.runs) is None
    state.publish(queued("mlp", "cpu"))
    state.publish(queued("conv2d", "cpu"))
    state.publish(progress("mlp", "cpu", elapsed_s=1.0))
    found = build_queue(state.runs)
    assert found == Queue(0, 2, 0, 5.0)
    for event in ran("mlp", "cpu", status="failed", time=None, reason="no")[1:]:
        state.publish(event)
    found = build_queue(state.runs)
    assert found is not None
    assert (found.done, found.total, found.failed) == (1, 2, 1)
    state.publish(messages.Rejected("conv2d on cpu", "before it began", "cancelled"))
    assert build_queue(state.runs) is None


@given(
    st.integers(0, 300), st.integers(1, 300), st.integers(0, 9), st.floats(0, 1e5),
    st.integers(1, 200), st.text("abc ", max_size=60),
)  # fmt: skip
def test_the_line_fits_and_says_how_many(
    done: int, more: int, failed: int, left: float, cells: int, now: str
) -> None:
    shown = queue_line(Queue(done, done + more, failed, left), cells, now)
    words = plain(shown)
    assert f"{done} of {done + more} run" in words
    assert words.count("left") == 1
    if cells >= 60:
        assert width(shown) <= cells
        assert ("failed" in words) == bool(failed)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "about 5 s"), (43, "about 45 s"), (58, "about 1 min"), (240, "about 4 min"),
        (3599, "about 1 h"), (5400, "about 1 h 30 min"),
    ],
)  # fmt: skip
def test_an_estimate_is_no_finer_than_it_is(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_before_everything_is_run_it_is_said_how_long_that_may_take_and_by_what() -> None:
    state = took(30.0)
    points = tuple({**DEFAULTS, "size": size} for size in (64, 128))
    state.publish(SweepSet("mlp", Sweep({"size": "64,128"}, points)))
    title, words = format_run_all_question(state.runs, ["matmul", "mlp"])
    assert title == "Run 2 workloads?"
    assert words[0] == "6 runs on cpu and cuda:0, about 2 min."
    assert words[1].startswith("1 run repeats an earlier one; the others are estimated at ")
    state.publish(queued("conv2d"))
    assert "They start after 1 queued run." in format_run_all_question(state.runs, ["mlp"])[1]
    state.publish(progress("conv2d"))
    assert "They start after the current run." in format_run_all_question(state.runs, ["mlp"])[1]
    state.publish(queued("mlp"))
    words = format_run_all_question(state.runs, ["mlp"])[1]
    assert "They start after the current run and 1 queued run." in words


def test_without_a_screen_each_result_is_printed_when_its_run_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = make_store("one gpu", queued("matmul", "cpu"), queued("mlp", "cpu"))
    printer = ResultPrinter(state.runs, ProgressLine(), rows=True)
    printer.print_ended()
    assert capsys.readouterr().out == ""
    for event in ran("matmul", "cpu")[1:]:
        state.publish(event)
    printer.print_ended()
    printer.print_ended()
    first = capsys.readouterr()
    assert first.out.startswith("matmul size=4096 float32")
    assert first.out.count("matmul") == 1
    assert first.err == ""  # no terminal, no bar
    state.publish(progress("mlp", "cpu"))
    words = format_progress(state.runs, 100)
    assert words.startswith("1 of 2 runs ")
    assert " left  mlp on cpu  measuring" in words
    printer.finish(list(state.runs.book.values()))
    assert capsys.readouterr().out == "mlp on cpu: not run\n"


def test_the_warnings_of_several_runs_follow_with_each_cause_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = make_store("one gpu")
    for name, apart in (("matmul", 26), ("mlp", 9), ("conv2d", None)):
        noisy = (f"noisy: quartiles {apart}% apart: {UNTRUSTED}",) if apart else ()
        table = f'others used {1 + len(noisy)} cores: the table "of {name}, 16 MiB" is unreliable'
        warnings = (*noisy, "its ceiling may be too low", table)
        for event in ran(name, "cpu", warnings=warnings):
            state.publish(event)
    printer = ResultPrinter(state.runs, ProgressLine(), rows=True)
    printer.print_ended()
    printed = capsys.readouterr().out
    assert "warning: " not in printed
    assert printed.count(glyphs.GLYPHS.warning) == 3
    printer.finish(list(state.runs.book.values()))
    assert capsys.readouterr().out.splitlines() == [
        "",
        f"warning: noisy: quartiles 9{glyphs.GLYPHS.dash}26% apart: do not trust these figures"
        " (matmul; mlp)",
        "warning: its ceiling may be too low (all 3 runs)",
        f"warning: others used 1{glyphs.GLYPHS.dash}2 cores: the tables, charts and figures that"
        " --json names are unreliable (all",
        "  3 runs)",
    ]


def test_a_single_run_keeps_its_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    state = make_store("one gpu", *ran("matmul", "cpu", warnings=("hot",)))
    printer = ResultPrinter(state.runs, ProgressLine(), rows=True)
    printer.finish(list(state.runs.book.values()))
    assert "    warning: hot" in capsys.readouterr().out.splitlines()


def test_results_that_follow_as_one_object_are_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    state = make_store("one gpu", *ran("matmul", "cpu"))
    ResultPrinter(state.runs, ProgressLine(), rows=False).print_ended()
    assert capsys.readouterr().out == ""


def test_before_the_end_it_is_said_what_is_lost() -> None:
    state = took(3.0)
    state.publish(queued("mlp", "cuda:0"))
    state.publish(queued("conv2d", "cuda:0"))
    state.publish(progress("mlp", "cuda:0"))
    words = format_quit_warning(state.runs, stored=False)
    assert words[0] == "Running mlp on cuda:0, ≤4 s left, 1 queued."
    assert words[1] == "Quitting cancels all 2."
    assert words[2].startswith("1 result of this session is lost (--no-store)")
    assert format_quit_warning(state.runs, stored=True) == words[:2]
