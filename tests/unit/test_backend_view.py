"""The backend pane's words: switches, verdicts, costs, and why there are none."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.screens.helpers import CUDNN_FLAGS, HOSTILE, environment, feed, make_store, torch_gpu
from tests.screens.results import compare_queued, compared, comparison, progress
from tui.core.text.ratios import format_interval
from tui.devices.state.machine import DeviceSelected
from tui.kit.lines import Span, TextStyle, plain, width
from tui.runs.state.events import FlagSet
from tui.runs.state.state import WorkbenchState
from tui.runs.views.backend import (
    build_view,
    flag_lines,
    format_folded_title,
    format_verdict,
    list_newest,
    list_switches,
)
from tui.runs.views.result_text import format_comparison_line, format_comparison_outcome
from workloads.protocol import messages
from workloads.protocol.results import UNTRUSTED_VERDICT, Arm, FlagInfo, Verdict

ONEDNN = (
    FlagInfo("mkldnn.enabled", "enabled", "", ("cpu",), False, True, None),
    FlagInfo("mkldnn.deterministic", "deterministic", "", ("cpu",), False, False, None),
)
UNTIMED = (Arm(False, None, None), Arm(True, None, None))
CUDNN_LINE = "cudnn [x] enabled  [ ] benchmark  [ ] deterministic  [x] conv.fp32 tf32"
CUBLAS_LINE = "cuda [ ] matmul.fp32 tf32"
ONEDNN_LINE = "mkldnn [x] enabled  [ ] deterministic"


def shown(state: WorkbenchState, cells: int = 200, cursor: str | None = None) -> list[str]:
    return [plain(row) for row in build_view(state.runs, cursor, cells).lines]


def both(kind: str = "one gpu") -> WorkbenchState:
    gpus = (torch_gpu(),) if kind == "one gpu" else ()
    why = None if gpus else "this torch is built without CUDA"
    flags = tuple(replace(flag, unavailable=why) for flag in CUDNN_FLAGS)
    ready = messages.Ready(environment(*gpus, flags=(*flags, *ONEDNN)), 1.0)
    return make_store("one gpu" if gpus else "no gpu", ready)


# ---- switches ----------------------------------------------------------------------------------


def test_the_selected_device_s_switches_come_first() -> None:
    state = both()
    assert shown(state) == [CUDNN_LINE, CUBLAS_LINE, ONEDNN_LINE]
    state.publish(DeviceSelected("cpu"))
    assert shown(state) == [ONEDNN_LINE, CUDNN_LINE, CUBLAS_LINE]


@pytest.mark.parametrize(
    ("cells", "title"),
    [
        (120, f"Backends   {CUDNN_LINE}   3 more flags"),
        (90, f"Backends   {CUDNN_LINE}"),
        (80, "Backends   cudnn [x] enabled  [ ] benchmark  [ ] deterministic   4 more flags"),
        (50, "Backends   cudnn [x] enabled   6 more flags"),
    ],
)
def test_the_folded_pane_has_the_switches_in_its_title(cells: int, title: str) -> None:
    assert format_folded_title(both().runs, cells) == title
    waiting = "Backends   flags appear once torch is imported"
    assert format_folded_title(make_store("empty").runs, cells) == waiting


def test_a_switch_shows_its_present_setting() -> None:
    state = both()
    state.publish(FlagSet("cudnn.benchmark", True))
    assert "[x] benchmark" in shown(state)[0]


def test_without_cudnn_its_flags_are_idle_with_one_reason_and_onednn_s_work() -> None:
    assert shown(both("no gpu")) == [
        ONEDNN_LINE,
        "cudnn and cuda flags have no effect: this torch is built without CUDA",
    ]


def test_the_cursor_is_on_one_switch_and_only_where_keys_arrive() -> None:
    state = both()
    for focused in (True, False):
        lines = build_view(state.runs, "cudnn.benchmark", 200, focused=focused).lines
        marked = [span.text for row in lines for span in row if span.style is TextStyle.CURSOR]
        assert marked == (["[ ] benchmark"] if focused else [])


def test_before_torch_is_imported_there_are_no_switches() -> None:
    assert shown(WorkbenchState()) == ["flags appear once torch is imported"]
    unusable = messages.Unusable("no module named torch", "install it")
    state = WorkbenchState()
    state.publish(unusable)
    assert shown(state) == ["no flags: torch cannot be used"]
    assert list_switches(state.runs) == ()


# ---- verdicts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "ratio", "interval", "said"),
    [
        ("faster", 1.435, (1.40, 1.47), "1.44x faster (1.40–1.47, 5 pairs)"),
        ("slower", 0.781, (0.73, 0.83), "1.28x slower (1.20–1.37, 5 pairs)"),
        (
            "same",
            1.002,
            (0.995, 1.009),
            "same: 1.00x (0.99–1.01, 5 pairs)",
        ),
        (
            "unclear",
            1.02,
            (0.97, 1.08),
            "unclear: 0.97–1.08x (5 pairs, c runs more)",
        ),
        (
            "unclear",
            1.3,
            None,
            "unclear: 1.30x (5 pairs, c runs more)",
        ),
        ("faster", 152.0, (140.0, 166.0), "150x faster (140–166, 5 pairs)"),
    ],
)
def test_wording_of_a_verdict(
    word: Verdict, ratio: float, interval: tuple[float, float] | None, said: str
) -> None:
    assert plain(format_verdict(comparison(verdict=word, ratio=ratio, ci95=interval))) == said


def test_a_verdict_with_a_warning_not_to_trust_it_is_drawn_quietly() -> None:
    trusted, doubted = (
        format_verdict(comparison(warnings=warnings))[0]
        for warnings in ((), (f"other programs used 2.0 cores: {UNTRUSTED_VERDICT}",))
    )
    assert plain((trusted,)) == plain((doubted,))
    assert trusted.style is TextStyle.WIN
    assert doubted.style is TextStyle.QUIET


@given(
    st.sampled_from(["faster", "slower", "same", "unclear"]),
    st.floats(0.01, 100),
    st.floats(1, 2),
)
def test_a_slower_setting_is_never_said_to_be_less_than_once_slower(
    word: Verdict, ratio: float, spread: float
) -> None:
    ratio = min(ratio, 1 / ratio) if word == "slower" else ratio
    said = plain(
        format_verdict(comparison(verdict=word, ratio=ratio, ci95=(ratio / spread, ratio * spread)))
    )
    assert word in said
    if word == "slower":
        assert float(said.split("x")[0].replace(" ", "")) >= 1


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_ends_of_an_interval_stay_in_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    shown_low, shown_high = (float(part) for part in format_interval(low, high).split("–"))
    assert shown_low <= shown_high


@given(
    st.sampled_from(["faster", "slower", "same"]),
    st.floats(0.01, 100),
    st.floats(0.0001, 0.999),
    st.floats(1.0001, 100),
)
@example("slower", 1 / 1.417, 1.417 / 3.40, 1.417 / 1.33)
@example("same", 1.0053, 0.9999, 1.0001)
def test_the_headline_is_never_outside_its_printed_interval(
    word: Verdict, ratio: float, below: float, above: float
) -> None:
    interval = (ratio * below, ratio * above)
    said = plain(format_verdict(comparison(verdict=word, ratio=ratio, ci95=interval)))
    found = re.search(r"([\d. ]+)x.*\(([\d.e+-]+)–([\d.e+-]+),", said)
    assert found
    shown, low, high = (Decimal(part.replace(" ", "")) for part in found.groups())
    assert low <= shown <= high


def test_a_wide_interval_leaves_the_headline_two_digits() -> None:
    wide = comparison(verdict="slower", ratio=0.706, ci95=(1 / 3.40, 1 / 1.33))
    assert plain(format_verdict(wide)).startswith("1.4x slower (1.33–3.40,")


def test_pairs_that_disagree_show_neither_a_ratio_nor_times_but_their_reach() -> None:
    """A recorded ratio of two modes, 0.56x, contradicts the medians beside it: 0.05x."""
    modes = (0.05,) * 12 + (1.0,) * 12
    of_modes = comparison(
        verdict="unclear",
        ratio=0.56,
        ci95=(0.05, 1.0),
        pairs=24,
        pairs_wanted=24,
        pair_ratios=modes,
        arms=(Arm(False, 400e-6, None), Arm(True, 8.44e-3, None)),
        break_even_calls=None,
    )
    state = make_store("one gpu", compare_queued(), messages.Compared(of_modes, done=True))
    assert shown(state)[1] == (
        "conv2d on cuda:0: cudnn.benchmark off→on  "
        "unclear: the pairs disagree, 0.05x to 1.00x (24 pairs, c runs more)"
    )
    stated = next(iter(state.runs.comparisons.values())).comparison
    assert stated is not None
    assert stated.ratio is None
    assert format_comparison_line(stated).endswith(
        "  unclear: the pairs disagree, 0.05x to 1.00x (24 pairs, --pairs for more)"
    )


# ---- comparisons -------------------------------------------------------------------------------


def test_a_finished_comparison_draws_both_times_and_says_when_it_pays() -> None:
    state = make_store("one gpu", *compared())
    assert shown(state)[1:5] == [
        "conv2d on cuda:0: cudnn.benchmark off→on  1.44x faster (1.40–1.47, 5 pairs)",
        f"  off {'■' * 40} 412 µs",
        f"  on  {'■' * 28} 287 µs",
        "  pays off after 3 040 calls   first call 12.1 → 392 ms",
    ]
    assert "1.5x faster" in shown(state)[5]
    rows = build_view(state.runs, None, 200).lines
    assert Span("1.44x faster", TextStyle.WIN) in rows[1]
    assert rows[2][1].style is rows[3][1].style is TextStyle.ALLOCATED


def test_the_folded_pane_says_why_no_flag_has_an_effect() -> None:
    state = make_store("no gpu")
    assert format_folded_title(state.runs, 120).startswith("Backends   no flag has an effect: ")
    assert format_folded_title(state.runs, 20) == "Backends"


def test_it_breaks_between_its_parts_where_it_is_narrow() -> None:
    state = make_store("one gpu", *compared())
    (named,) = (row for row in shown(state, 74) if "conv2d" in row)
    assert named == ("conv2d on cuda:0: benchmark off→on  1.44x faster (1.40–1.47, 5 pairs)")
    # There is no room for bars: the times are text.
    narrow = " ".join(" ".join(shown(state, 20)).split())
    assert "off 412 µs → on 287 µs (first call 12.1 → 392 ms)" in narrow
    assert "search costs 380 ms: pays off after 3 040 calls" in narrow
    assert "■" not in narrow


@pytest.mark.parametrize(("rows", "drawn"), [(7, True), (6, False)])
def test_the_interval_gives_way_to_the_bars(rows: int, drawn: bool) -> None:
    state = make_store("one gpu", *compared())
    lines = build_view(state.runs, None, 100, focused=False, rows=rows).lines
    assert len(lines) == rows
    assert sum("■" in plain(row) for row in lines) == 2
    assert any("1.5x slower" in plain(row) for row in lines) is drawn
    brief = build_view(state.runs, None, 100, focused=False, rows=5).lines
    assert not any("■" in plain(row) for row in brief)


def test_the_comparison_of_the_selected_workload_stands_first() -> None:
    state = make_store("one gpu", *compared(), *compared(workload="mlp"))
    for workload in ("conv2d", "mlp"):
        lines = build_view(state.runs, None, 100, focused=False, rows=8, workload=workload).lines
        named = [plain(row).split()[0] for row in lines if "1.44x faster" in plain(row)]
        assert named[0] == workload
        assert len(named) == 2


def test_a_queued_comparison_says_so() -> None:
    state = make_store("one gpu", compare_queued())
    assert shown(state)[1] == "conv2d on cuda:0: cudnn.benchmark off→on  queued"


def test_a_comparison_that_goes_on_shows_the_verdict_so_far_and_its_phase() -> None:
    state = make_store("one gpu", compare_queued())
    state.publish(progress(id="cudnn.benchmark of conv2d", phase="warm-up"))
    assert shown(state)[1] == "conv2d on cuda:0: cudnn.benchmark off→on  warm-up"
    so_far = comparison(pairs=1, ratio=None, ci95=None, arms=UNTIMED)
    state.publish(messages.Compared(so_far, done=False))
    assert shown(state)[1] == "conv2d on cuda:0: cudnn.benchmark off→on  warm-up, pair 2 of 5"
    state.publish(messages.Compared(comparison(pairs=3), done=False))
    assert shown(state)[1].startswith(
        "conv2d on cuda:0: cudnn.benchmark off→on  warm-up, pair 4 of 5: 1.44x faster so far"
    )
    for verdict, ratio, words in (
        ("slower", 0.5, "pair 4 of 5: 2.00x slower so far"),
        ("unclear", 1.91, "pair 4 of 5: 1.40–1.47x so far"),
        ("same", 1.0, "pair 6 of 6: 1.00x so far"),
    ):
        pairs, wanted = (6, 6) if verdict == "same" else (3, 5)
        found = comparison(verdict=verdict, ratio=ratio, pairs=pairs, pairs_wanted=wanted)
        state.publish(messages.Compared(found, done=False))
        assert f"  warm-up, {words}" in shown(state)[1]


@pytest.mark.parametrize("status", ["failed", "skipped", "cancelled"])
def test_what_was_measured_stays_when_a_comparison_did_not_end_well(status: str) -> None:
    state = make_store("one gpu", *compared(status=status, reason=HOSTILE, pairs=3))
    said = "\n".join(shown(state, 400))
    assert f"{status} after 3 of 5 pairs  so far 1.44x faster (1.40–1.47)  " in said
    assert plain((Span(HOSTILE),)) in said


def test_a_cancelled_comparison_reads_cancelled_and_not_unclear() -> None:
    told = compared(
        status="cancelled",
        reason="the pairs so far are kept",
        verdict="unclear",
        ratio=0.7,
        ci95=(0.57, 0.95),
        pairs=2,
    )
    rows = shown(make_store("one gpu", *told), 79)
    assert rows[1:3] == [
        "conv2d on cuda:0: cudnn.benchmark off→on  cancelled after 2 of 5 pairs",
        "  so far 0.57–0.95x  the pairs so far are kept",
    ]


def test_on_the_command_line_a_cancelled_comparison_reads_the_same() -> None:
    found = comparison(
        status="cancelled",
        reason="the pairs so far are kept",
        verdict="unclear",
        ratio=0.7,
        pairs=2,
    )
    said = format_comparison_line(found)
    assert "cancelled after 2 of 5 pairs  so far 1.40–1.47x" in said
    assert "unclear" not in said


def test_one_that_was_cancelled_before_it_began_has_no_verdict() -> None:
    told = compared(
        status="cancelled", reason="before it began", ratio=None, ci95=None, pairs=0, arms=UNTIMED
    )
    assert shown(make_store("one gpu", *told))[1] == (
        "conv2d on cuda:0: cudnn.benchmark off→on  cancelled: before it began"
    )


def test_where_there_are_few_rows_and_no_keys_each_comparison_is_one_line() -> None:
    state = make_store(
        "one gpu",
        *compared(),
        *compared("cudnn.conv.fp32_precision", verdict="unclear", ratio=1.02, ci95=(0.97, 1.08)),
        *compared("cudnn.deterministic", status="cancelled", reason="before it began", pairs=2),
    )
    brief = [plain(row) for row in build_view(state.runs, None, 60, focused=False, rows=5).lines]
    assert brief[2:] == [
        "conv2d on cuda:0: deterministic off→on  cancelled after 2 o…",
        "conv2d on cuda:0: conv.fp32 ieee→tf32  unclear: 0.97–1.08x",
        "conv2d on cuda:0: benchmark off→on  1.44x faster",
        CUBLAS_LINE,
    ]
    everything = build_view(state.runs, None, 60).lines
    scrolled = build_view(state.runs, None, 60, focused=True, rows=5).lines
    # All that is said, with the first as a picture.
    assert sum("slower" in plain(row) for row in everything) == 3
    assert sum("slower" in plain(row) for row in scrolled) == 1
    assert sum("■" in plain(row) for row in scrolled) == 2
    assert sum("off 412 µs → on 287 µs" in plain(row) for row in scrolled) == 1
    assert len(build_view(state.runs, None, 60, focused=False, rows=len(everything)).lines) == len(
        everything
    )


def test_without_a_pair_there_is_no_verdict_but_a_reason() -> None:
    lost = compared(ratio=None, ci95=None, pairs=0, unavailable={"ratio": "no pair was measured"})
    assert "no verdict: no pair was measured" in shown(make_store("one gpu", *lost))[1]


def test_without_a_break_even_there_is_its_reason() -> None:
    why = {"break_even_calls": "the second setting is not faster once warm, so it never pays"}
    state = make_store("one gpu", *compared(break_even_calls=None, unavailable=why))
    assert shown(state, 240)[4] == (
        "  no break-even: the second setting is not faster once warm, so it never pays"
        "   first call 12.1 → 392 ms"
    )


@pytest.mark.parametrize("calls", [None, 40.0])
def test_a_break_even_is_told_when_the_comparison_is_done(calls: float | None) -> None:
    why = {} if calls else {"break_even_calls": "it never pays"}

    def said(pairs: int, *, done: bool) -> str:
        events = compared(done=done, pairs=pairs, break_even_calls=calls, unavailable=why)
        return "\n".join(shown(make_store("one gpu", *events)))

    going, done = said(1, done=False), said(5, done=True)
    told = "pays off after 40 calls" if calls else "no break-even: it never pays"
    assert told in done
    assert told not in going
    assert "first call" in going


def test_only_the_newest_of_a_flag_and_a_workload_is_shown() -> None:
    state = make_store("one gpu", *compared(pairs=3), *compared("cudnn.conv.fp32_precision"))
    again = comparison(id="again")
    request = replace(compare_queued().request, id="again")
    feed(state, type(compare_queued())(request), messages.Compared(again, done=True))
    assert [state.request.id for state in list_newest(state.runs)] == [
        "again",
        "cudnn.conv.fp32_precision of conv2d",
    ]


def test_the_flag_under_the_cursor_comes_first() -> None:
    state = make_store("one gpu", *compared(), *compared("cudnn.conv.fp32_precision"))
    assert "fp32_precision" in shown(state, cursor="cudnn.conv.fp32_precision")[1]
    assert "benchmark" in shown(state, cursor="cudnn.benchmark")[1]


@given(st.integers(min_value=20, max_value=200), st.text(max_size=80))
def test_no_line_is_wider_than_the_pane(cells: int, reason: str) -> None:
    state = make_store("one gpu", *compared(status="failed", reason=reason))
    assert all(width(row) <= cells for row in build_view(state.runs, None, cells).lines)


def test_the_outcome_of_a_stored_comparison_has_its_interval_and_both_times() -> None:
    outcome = format_comparison_outcome(comparison(verdict="unclear", ratio=1.06, ci95=(0.9, 1.2)))
    assert outcome.startswith("cudnn.benchmark off→on  unclear: 0.90–1.20x (")
    assert " → on " in outcome
    assert "--pairs" not in outcome


def test_pairs_of_one_process_say_so_as_another_may_differ_by_more() -> None:
    apart = comparison(verdict="faster", ratio=1.44, ci95=(1.4, 1.47))
    assert "one process" not in plain(format_verdict(apart))
    inside = replace(apart, fresh_process=False)
    assert f"{apart.pairs} pairs, one process)" in plain(format_verdict(inside))


def test_a_flag_is_explained_before_its_warnings() -> None:
    warning = f"other programs used 2.0 cores: {UNTRUSTED_VERDICT}"
    state = make_store("one gpu", *compared(warnings=(warning,))).runs
    flag = next(each for each in state.known_flags if each.name == "cudnn.benchmark")
    rows = [plain(row) for row in flag_lines(state, flag.name, 200)]
    assert rows[0] == flag.about
    assert rows[-1].endswith(warning)
    assert [plain(row) for row in flag_lines(state, "cudnn.enabled", 200)] == ["use cuDNN at all"]
