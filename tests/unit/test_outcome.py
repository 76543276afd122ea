"""What is seen first of a run: figures, share of the limit, check; blocks, groups, intervals."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.screens.helpers import make_store
from tests.screens.results import compared, progress, queued, ran, timing
from tui.core.text import glyphs
from tui.kit.lines import TextStyle, plain, width
from tui.kit.scale import ratio_line
from tui.runs.state.runs import RunState
from tui.runs.state.state import WorkbenchState
from tui.runs.views.backend import comparison_lines
from tui.runs.views.detail_plots import group_lines
from tui.runs.views.outcome import block_lines, outcome_lines
from tui.runs.views.workload_state import fold_warnings
from workloads.protocol.results import Check, Limit, Timing


def runs(state: WorkbenchState, name: str = "matmul") -> dict[str, RunState | None]:
    return {device: state.runs.latest_run(name, device) for device in ("cpu", "cuda:0")}


def shown(state: WorkbenchState, cells: int, name: str = "matmul") -> list[str]:
    return [plain(row).rstrip() for row in outcome_lines(runs(state, name), cells)]


def both() -> WorkbenchState:
    limit = Limit("float32", 5e11, 0.5, "measured on this machine", "measured")
    return make_store("one gpu", *ran("matmul", "cpu", median=0.271, limit=limit), *ran())


def test_the_figures_of_the_devices_stand_below_each_other() -> None:
    assert shown(both(), 100) == [
        "cpu        271 ms  ±0.4%      507 GFLOP/s  "
        "■■■■■■■■■■■■■■■■╸················  50% of float32 ceiling",
        "cuda:0    2.71 ms  ±0.4%     50.7 TFLOP/s  "
        "■■■■■■■■■■■■■■■■■■■■■■■■■········  76% of float32 peak",
        "cuda:0 is 100x as fast as cpu",
    ]


@pytest.mark.parametrize("cells", [24, 40, 60, 80, 160])
def test_nothing_is_lost_where_it_is_narrow(cells: int) -> None:
    rows = shown(both(), cells)
    words = " ".join(" ".join(rows).split())
    for said in ("271 ms", "507 GFLOP/s", "50% of float32 ceiling", "2.71 ms", "76% of float32"):
        assert said in words
    assert all(len(row) <= cells for row in rows)
    assert any("■" in row for row in rows) == (cells >= 40)


def test_in_ascii_no_figure_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    state = both()
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    assert shown(state, 100)[0] == (
        "cpu        271 ms  +/-0.4%      507 GFLOP/s  "
        "###############-...............  50% of float32 ceiling"
    )


def test_what_is_wrong_stands_out() -> None:
    above = Limit("float32", 1e12, 50.7, "datasheet")
    state = make_store("one gpu", *ran(limit=above, warnings=("hot",)))
    assert any("impossible" in text for text in bad_texts(state))
    assert "! hot" in shown(state, 100)
    wrong = make_store("one gpu", *ran(limit=above, check=Check(False, 1.0, 1e-4, "float64")))
    assert "check FAILED: the result is wrong" in bad_texts(wrong)
    assert not any("impossible" in text for text in bad_texts(wrong))


def bad_texts(state: WorkbenchState) -> list[str]:
    rows = outcome_lines(runs(state), 100)
    return [span.text for row in rows for span in row if span.style is TextStyle.BAD]


def test_what_goes_on_or_failed_says_so() -> None:
    state = make_store("one gpu", queued())
    assert shown(state, 80) == ["cuda:0   queued"]
    state.publish(progress())
    assert shown(state, 80) == ["cuda:0   7 blocks, 213 µs ±1.1% so far, ≤4 s left"]
    failed = make_store("one gpu", *ran(status="failed", time=None, limit=None, reason="no room"))
    assert shown(failed, 80)[0] == "cuda:0   failed: no room"


def test_devices_with_sizes_of_their_own_are_not_compared() -> None:
    state = make_store("one gpu", *ran("matmul", "cpu", chosen={"n": 1}), *ran(chosen={"n": 2}))
    assert "cuda:0 and cpu ran sizes of their own: their times do not compare" in shown(state, 90)


def test_a_wrong_result_is_not_said_to_be_fast() -> None:
    wrong = ran(status="failed", reason="wrong result", check=Check(False, 1.0, 1e-4, "float64"))
    words = " ".join(shown(make_store("one gpu", *ran("matmul", "cpu", median=0.271), *wrong), 90))
    assert "failed: wrong result" in words
    assert "as fast as" not in words


# ---- blocks ------------------------------------------------------------------------------------


def blocks(*times: float) -> Timing:
    return timing(sorted(times)[len(times) // 2], block_times_s=times)


def test_a_drift_shows_in_the_blocks() -> None:
    rows = [plain(row) for row in block_lines(blocks(*([1e-3] * 21), *([2e-3] * 19)), 60)]
    assert rows[0] == "  time of a call in ms over block"
    assert rows[1].startswith("  2┤")
    assert rows[5].startswith("  1└")
    drawn = [row[4:].ljust(56) for row in rows[1:5]]
    assert drawn[3][:24].strip()
    assert not drawn[0][:24].strip()
    assert drawn[0][32:].strip()


def test_few_blocks_or_equal_ones_make_no_trouble() -> None:
    assert block_lines(blocks(1e-3, 1e-3), 60) == []
    assert block_lines(blocks(1e-3, 1e-3, 1e-3), 60)
    assert block_lines(blocks(1e-3, 2e-3, 3e-3), 12) == []


# ---- a group -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [30, 60, 120, 200])
def test_the_bars_of_a_group_are_in_proportion(cells: int) -> None:
    half = ran("mlp", "cpu", median=2e-3), ran("mlp", "cuda:0", median=1e-3)
    state = make_store("one gpu", *ran("matmul", "cpu", median=8e-3), *half[0], *half[1])
    rows = group_lines(state.runs, "compute", ["matmul", "mlp", "conv2d"], cells)
    assert all(width(row) <= cells for row in rows)
    bars = [span.text.rstrip() for row in rows for span in row if set(span.text) & set("█▏▌")]
    full = max(map(len, bars))
    assert sorted(map(len, bars))[1:] == [full, full]
    assert abs(min(map(len, bars)) - full / 2) <= 1
    words = " ".join(map(plain, rows))
    assert "2.00x" in words
    assert "1 not run: " in " ".join(words.split())


def test_a_group_tells_failures_from_what_was_not_run() -> None:
    failed = ran("matmul", "cpu", status="failed", time=None, reason="out of memory")
    rows = group_lines(make_store("no gpu", *failed).runs, "compute", ["matmul", "mlp"], 80)
    words = " ".join(map(plain, rows))
    assert "1 failed: matmul" in words
    assert "1 not run: mlp; r runs the group" in words


# ---- an interval -------------------------------------------------------------------------------


def test_an_interval_lies_on_its_side_of_one() -> None:
    assert plain(ratio_line(1.43, (1.40, 1.47), 60)) == (
        "1.5x slower ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌1x│╌╌╌╌╌╌╌╌╌╌╌╌╌├●┤╌ 1.5x faster"
    )
    slower = plain(ratio_line(0.7, (0.69, 0.71), 60))
    assert slower.index("●") < slower.index("│1x")
    unclear = ratio_line(1.02, (0.98, 1.04), 60)
    assert "┼" in plain(unclear)
    assert plain(unclear).index("├") < plain(unclear).index("┼") < plain(unclear).index("●")
    assert {span.style for span in unclear} == {TextStyle.QUIET}


def test_faster_is_good_slower_is_noted_and_the_same_is_quiet() -> None:
    def mark(ratio: float, interval: tuple[float, float] | None) -> TextStyle:
        (span,) = (span for span in ratio_line(ratio, interval, 60) if "●" in span.text)
        return span.style

    assert mark(1.43, (1.40, 1.47)) is TextStyle.GOOD
    assert mark(0.7, (0.69, 0.71)) is TextStyle.NOTE
    assert mark(1.02, (0.98, 1.04)) is TextStyle.QUIET
    assert mark(1.43, None) is TextStyle.QUIET


@given(st.floats(0.1, 10), st.floats(0.1, 1), st.floats(1, 10), st.integers(30, 120))
@example(0.706, 0.42, 1.07, 70)
def test_the_name_of_one_is_whole_or_left_out(
    ratio: float, below: float, above: float, cells: int
) -> None:
    words = plain(ratio_line(ratio, (ratio * below, ratio * above), cells))
    drawn = words.partition("slower ")[2].rpartition(" ")[0].rpartition(" ")[0]
    assert drawn.count("1") == drawn.count("x") == drawn.count("1x")


@given(st.floats(1e-3, 1e3), st.floats(0, 0.5), st.integers(20, 120))
def test_the_line_is_whole_and_symmetrical(ratio: float, spread: float, cells: int) -> None:
    row = ratio_line(ratio, (ratio * (1 - spread), ratio * (1 + spread)), cells)
    assert width(row) <= cells
    if row:
        drawn = plain(row).partition("slower ")[2].rpartition(" ")[0].rpartition(" ")[0]
        assert drawn.count(glyphs.GLYPHS.marks[0]) == 1
        assert len(drawn) % 2 == 1
        middle = drawn[len(drawn) // 2]
        assert middle in "│┼●├┤"


def test_a_comparison_is_drawn_below_its_figures() -> None:
    state = make_store("one gpu", *compared())
    (found,) = state.runs.comparisons.values()
    rows = [plain(row) for row in comparison_lines(state.runs, found, 70)]
    assert rows[-1].startswith("  1.5x slower")
    assert "├" in rows[-1]
    assert (
        comparison_lines(state.runs, found, 70, interval=False)
        == comparison_lines(state.runs, found, 70)[:-1]
    )


@pytest.mark.parametrize(
    ("warnings", "shown"),
    [
        ((), ()),
        (("a", "b"), ("a", "b")),
        (("a", "b", "c"), ("3 warnings (i)",)),
        (("noisy: quartiles 13% apart", *"bcdefg"), ("noisy: 7 warnings (i)",)),
    ],
)
def test_many_warnings_are_one_line_beside_the_figures(
    warnings: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    assert fold_warnings(warnings) == shown
