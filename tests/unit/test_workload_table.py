"""Rows of the workload table: what each state of a run says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.screens.helpers import HOSTILE, feed, hello, make_store, workload
from tests.screens.results import (
    DEFAULTS,
    FLAGS,
    compared,
    progress,
    queued,
    ran,
    result,
    timing,
)
from tui.devices.state.machine import DeviceSelected
from tui.kit.lines import Span, TextStyle, plain, width
from tui.runs.state.events import CompareQueued, ConditionsRecorded, FlagSet, ParametersSet
from tui.runs.state.runs import Conditions
from tui.runs.state.state import WorkbenchState
from tui.runs.views.search import build_entries
from tui.runs.views.workload_columns import (
    WIDEST,
    cut_parameters,
    draw_entry,
    fit_workload_columns,
)
from tui.runs.views.workload_table import (
    Group,
    WorkloadRow,
    build_row,
    format_not_run,
)
from workloads.protocol.results import Arm, Basis, Check, Limit, Rates


def the_row(state: WorkbenchState, name: str = "matmul") -> WorkloadRow:
    return build_row(state.runs, next(info for info in state.runs.catalogue if info.name == name))


def cells(state: WorkbenchState, name: str = "matmul") -> dict[str, str]:
    found = the_row(state, name)
    return {key: cell.text for key, cell in found.cells.items()} | {"state": plain(found.state)}


def test_a_workload_that_was_not_run_has_empty_cells() -> None:
    found = cells(make_store())
    assert found.pop("state") == ""
    assert set(found.values()) == {""}


def test_two_results_give_times_and_their_ratio() -> None:
    state = make_store("one gpu", *ran("matmul", "cpu", median=0.412), *ran())
    assert cells(state) == {
        "cpu": "412 ms",
        "cuda:0": "2.71 ms",
        "speed-up": "152x",
        "rate": "50.7 TFLOP/s",
        "of limit": "76% float32",
        "peak memory": "201 MiB",
        "state": "ok ±0.4%",
    }


def test_a_comparison_of_a_flag_fills_the_row_of_its_workload() -> None:
    state = make_store("one gpu", *compared())
    told = {"cuda:0": "412 µs", "state": "benchmark 1.44x faster"}
    assert {key: words for key, words in cells(state, "conv2d").items() if words} == told
    assert [plain(form) for form in the_row(state, "conv2d").shorter] == ["1.44x faster"]
    assert the_row(state, "conv2d").title == ""
    assert format_not_run(state.runs) == "2 not run"
    state.publish(FlagSet("cudnn.benchmark", True))
    assert cells(state, "conv2d")["cuda:0"] == "287 µs"
    feed(state, *ran("conv2d", "cpu"))
    assert cells(state, "conv2d")["cuda:0"] == ""


def test_a_verdict_on_switching_a_flag_off_is_never_without_the_setting() -> None:
    arms = (Arm(True, 0.287e-3, 392e-3), Arm(False, 0.412e-3, 12.1e-3))
    state = make_store(
        "one gpu", *compared(arms=arms, ratio=1 / 1.435, ci95=None, verdict="slower")
    )
    assert cells(state, "conv2d")["state"] == "benchmark off 1.44x slower"
    assert the_row(state, "conv2d").shorter == ()


@pytest.mark.parametrize(
    "changes",
    [{"done": False}, {"status": "cancelled"}, {"ratio": None}, {"device": "cuda:7"}],
)
def test_a_comparison_without_a_verdict_or_elsewhere_fills_no_row(changes: dict[str, Any]) -> None:
    state = make_store("one gpu", *compared(**changes))
    assert not any(cells(state, "conv2d").values())


def test_a_comparison_with_other_parameters_or_flags_fills_no_row() -> None:
    state = make_store("one gpu", *compared(), ParametersSet("conv2d", {**DEFAULTS, "size": 64}))
    assert not any(cells(state, "conv2d").values())
    asked, found = compared()
    assert isinstance(asked, CompareQueued)
    request = replace(asked.request, flags={"cudnn.deterministic": False})
    state = make_store("one gpu", CompareQueued(request), found)
    assert cells(state, "conv2d")["cuda:0"] == "412 µs"
    state.publish(FlagSet("cudnn.deterministic", True))
    assert not any(cells(state, "conv2d").values())


def test_devices_that_each_had_a_size_of_its_own_have_no_ratio() -> None:
    small = ran("matmul", "cpu", median=0.412, chosen={"n": 1024})
    state = make_store("one gpu", *small, *ran(chosen={"n": 8192}))
    assert cells(state)["speed-up"] == "n/a"
    state = make_store("one gpu", *small, *ran(chosen={"n": 1024}))
    assert cells(state)["speed-up"] == "152x"


def test_no_digit_is_shown_that_the_interval_does_not_support() -> None:
    wide = timing(2.71e-3, spread=0.08)
    state = make_store("one gpu", *ran("matmul", "cpu", median=0.412), *ran(time=wide))
    found = cells(state)
    assert found["cuda:0"] == "2.7 ms"
    assert found["speed-up"] == "150x"
    assert found["state"] == "ok ±8.0%"


def test_a_run_that_goes_on_shows_its_estimate_and_how_far_it_is() -> None:
    state = make_store("one gpu", queued(), progress())
    found = cells(state)
    assert found["cuda:0"] == "213 µs"
    assert found["state"] == "cuda:0 ■■╸······· block 7 ±1.1%, ≤4 s left"


@pytest.mark.parametrize("phase", ["preparing", "first call", "warm-up", "checking", "figures"])
def test_a_phase_other_than_measuring_is_named(phase: str) -> None:
    state = make_store("one gpu", queued(), progress(phase=phase, estimate_s=None))
    words = "computing figures" if phase == "figures" else phase
    assert cells(state)["state"] == f"cuda:0 {words}"
    assert cells(state)["cuda:0"] == "…"


def test_what_goes_on_or_went_wrong_is_read_first_and_what_is_well_not_at_all() -> None:
    state = make_store(
        "one gpu", *ran("matmul", "cpu", status="skipped", time=None, reason="too large"), queued()
    )
    assert cells(state)["cuda:0"] == "queued"
    assert cells(state)["state"] == "cpu skipped: too large"


def test_queued_is_said_once_in_its_column() -> None:
    state = make_store("one gpu", queued("matmul", "cpu"), queued())
    assert [cells(state)[name] for name in ("cpu", "cuda:0", "state")] == ["queued", "queued", ""]
    state = make_store("one gpu", *ran("matmul", "cpu"), queued())
    assert [cells(state)[name] for name in ("cuda:0", "state")] == ["queued", ""]
    alone = make_store("no gpu", queued("matmul", "cpu"))
    assert [cells(alone)[name] for name in ("cpu", "state")] == ["queued", ""]
    feed(state, progress(), *ran("matmul", "cpu"))
    assert cells(state)["state"] == "cuda:0 ■■╸······· block 7 ±1.1%, ≤4 s left"


def test_a_cancelled_run_keeps_what_was_measured() -> None:
    state = make_store("one gpu", *ran(status="cancelled", reason="by the user"))
    found = cells(state)
    assert found["cuda:0"] == "2.71 ms"
    assert found["state"] == "cuda:0 cancelled: by the user"


def test_the_time_of_a_wrong_result_and_absent_figures_are_dim() -> None:
    without = {"rates": Rates(None, None, None), "limit": None}
    wrong = ran("matmul", "cpu", status="failed", reason="wrong result")
    failed = the_row(make_store("no gpu", *wrong)).cells
    assert failed["cpu"] == Span("2.71 ms", TextStyle.QUIET)
    absent = the_row(make_store("no gpu", *ran("matmul", "cpu", **without))).cells
    assert absent["rate"].style is absent["of limit"].style is TextStyle.QUIET
    right = the_row(make_store("no gpu", *ran("matmul", "cpu"))).cells
    assert right["cpu"].style is right["rate"].style is TextStyle.PLAIN


def test_a_failed_run_says_why() -> None:
    state = make_store("no gpu", *ran("matmul", "cpu", status="failed", time=None, reason=HOSTILE))
    found = cells(state)
    assert found["cpu"] == "–"
    assert found["state"] == f"failed: {HOSTILE}"


def test_the_reason_of_a_wrong_result_has_the_room_of_its_figures() -> None:
    reason = "the largest error is 0.5, against float64"
    runs = (*ran("matmul", "cpu"), *ran(status="failed", reason=reason))
    state = make_store("one gpu", *runs)
    found = the_row(state)
    assert not {"rate", "of limit", "peak memory"} & found.cells.keys()
    layout = fit_workload_columns(state.runs, [found], 116)
    assert "cuda:0 failed: the largest error" in plain(draw_entry(found, layout, under_cursor=True))


@pytest.mark.parametrize("cells", [76, 116, 160])
@pytest.mark.parametrize("phase", ["warm-up", "figures", "measuring"])
def test_a_state_begins_below_its_heading(phase: str, cells: int) -> None:
    state = make_store("one gpu", *ran("matmul", "cpu"), queued(), progress(phase=phase))
    found = the_row(state)
    layout = fit_workload_columns(state.runs, [found], cells)
    drawn = plain(draw_entry(found, layout, under_cursor=True))
    # A longer one takes the cells of figures that follow: in a narrow table, of the speed-up.
    names = ("state", "rate" if cells > 80 else "speed-up")
    starts = [placed.start for placed in layout if placed.column.name in names]
    start = next(at for at in starts if drawn[at - 1] == " " != drawn[at])
    shown = drawn[start:].rstrip()
    assert shown in {plain(form) for form in (found.state, *found.shorter)}


@pytest.mark.parametrize("cells", [76, 116, 160])
def test_the_state_of_a_run_stays_at_its_place_while_it_goes_on(cells: int) -> None:
    starts = set()
    for phase in ("preparing", "warm-up", "measuring", "figures"):
        state = make_store("one gpu", *ran("matmul", "cpu"), queued(), progress(phase=phase))
        found = the_row(state)
        layout = fit_workload_columns(state.runs, [found], cells)
        drawn = plain(draw_entry(found, layout, under_cursor=True)).rstrip()
        forms = (found.state, *found.shorter)
        starts.add(next(len(drawn) - width(form) for form in forms if drawn.endswith(plain(form))))
    assert len(starts) == 1


@pytest.mark.parametrize("cells", [116, 160])
def test_reasons_of_failed_runs_begin_at_one_column(cells: int) -> None:
    starts = set()
    for reason in ("the largest error is 0.5, against float64 on the CPU", "it is " + "long " * 40):
        state = make_store("one gpu", *ran("matmul", "cpu"), *ran(status="failed", reason=reason))
        found = the_row(state)
        layout = fit_workload_columns(state.runs, [found], cells)
        drawn = plain(draw_entry(found, layout, under_cursor=True))
        starts.add(drawn.index("cuda:0 failed"))
        assert drawn.index("cuda:0 failed") < layout[-1].start
    assert len(starts) == 1


@pytest.mark.parametrize("cells", [76, 116, 160])
def test_titles_begin_below_each_other(cells: int) -> None:
    catalogue = (workload(), workload("graphs", title="one graph", devices=("cuda",)))
    state = make_store("one gpu", hello(*catalogue))
    found = [the_row(state, info.name) for info in catalogue]
    layout = fit_workload_columns(state.runs, found, cells)
    drawn = [plain(draw_entry(row, layout, under_cursor=False)) for row in found]
    assert drawn[1].rstrip().endswith("one graph  GPU only")
    assert drawn[0].index("matrix product") == drawn[1].index("one graph")


def test_a_wrong_result_is_not_called_ok() -> None:
    check = Check(False, 0.5, 1e-4, "float64")
    state = make_store("no gpu", *ran("matmul", "cpu", check=check))
    assert cells(state)["state"] == "wrong result"


def test_warnings_are_counted_with_those_of_the_device_during_the_run() -> None:
    state = make_store("one gpu", *ran(warnings=("noisy",)))
    assert cells(state)["state"] == "! ok ±0.4%, 1 warning"
    seen = Conditions(5, 1200, 1980, 310.0, 80.0, ("hw_slowdown",), None, ("throttled",))
    state.publish(ConditionsRecorded(result().id, seen))
    assert cells(state)["state"] == "! ok ±0.4%, throttled, 1 warning"


def test_a_doubt_about_one_of_two_devices_names_it() -> None:
    state = make_store("one gpu", *ran(), *ran("matmul", "cpu", warnings=("noisy",)))
    assert cells(state)["state"] == "ok ±0.4%, ! cpu: 1 warning"
    for event in ran(warnings=("noisy",)):
        state.publish(event)
    assert cells(state)["state"].startswith("! ok ±0.4%")


@pytest.mark.parametrize(
    ("basis", "said"), [("published", "impossible rate"), ("measured", "above its ceiling")]
)
def test_a_rate_above_its_limit_is_said_to_be_so_in_words(basis: Basis, said: str) -> None:
    limit = Limit("float32", 1e12, 1.9, "told", basis)
    state = make_store("no gpu", *ran("matmul", "cpu", limit=limit, warnings=("190% is …",)))
    assert cells(state)["of limit"] == "!190% float32"
    assert cells(state)["state"] == f"! ok ±0.4%, {said}"


@pytest.mark.parametrize(
    ("name", "short"),
    [("memory bandwidth", "bandwidth"), ("float32 (or 3xTF32)", "float32")],
)
def test_the_longest_names_of_limits_are_short_in_the_table(name: str, short: str) -> None:
    limit = Limit(name, 1e12, 1.24, "told", "published")
    state = make_store("no gpu", *ran("matmul", "cpu", limit=limit))
    assert cells(state)["of limit"] == f"!124% {short}"
    assert len(cells(state)["of limit"]) <= WIDEST


def test_a_run_under_other_flags_is_marked_until_they_are_set_back() -> None:
    convolution = hello(workload(convolutions="only"))
    state = make_store("one gpu", convolution, *ran(), FlagSet("cudnn.benchmark", True))
    assert cells(state)["state"] == "ok ±0.4%, other flags"
    state.publish(FlagSet("cudnn.benchmark", FLAGS["cudnn.benchmark"]))
    assert cells(state)["state"] == "ok ±0.4%"


def test_a_narrow_state_drops_its_last_mark_before_all_of_them() -> None:
    convolution = hello(workload(convolutions="only"))
    done = ran(warnings=("not quiet", "hot"))
    state = make_store("one gpu", convolution, *done, FlagSet("cudnn.benchmark", True))
    row = the_row(state)
    assert plain(row.state) == "! ok ±0.4%, 2 warnings, other flags"
    assert plain(row.shorter[0]) == "! ok ±0.4%, 2 warnings"


def test_a_cudnn_flag_does_not_mark_what_is_no_convolution() -> None:
    state = make_store("one gpu", *ran(), FlagSet("cudnn.benchmark", True))
    assert cells(state)["state"] == "ok ±0.4%"


def test_a_device_that_a_workload_is_not_made_for_is_na() -> None:
    state = make_store("one gpu", hello(workload(devices=("cuda",))), *ran())
    assert cells(state)["cpu"] == "n/a"
    assert cells(state)["state"] == "ok ±0.4%"


def test_other_parameters_have_runs_of_their_own() -> None:
    state = make_store("one gpu", *ran())
    state.publish(ParametersSet("matmul", {**DEFAULTS, "size": 64}))
    assert cells(state)["state"] == ""
    assert the_row(state).name.text == "matmul* size=64 float32"


def test_changed_parameters_are_named_first() -> None:
    state = make_store("one gpu", ParametersSet("matmul", {**DEFAULTS, "dtype": "float16"}))
    assert the_row(state).name.text == "matmul* float16 size=4096"


def test_the_column_is_the_selected_gpu_s() -> None:
    state = make_store("two gpus", *ran(), *ran("matmul", "cuda:1", median=5e-3))
    state.publish(DeviceSelected(state.machine.devices[1].key))
    assert cells(state)["cuda:1"] == "5.00 ms"


def test_without_a_gpu_rate_and_limit_are_the_cpu_s() -> None:
    state = make_store("no gpu", *ran("matmul", "cpu", median=0.412))
    assert cells(state) == {
        "cpu": "412 ms",
        "speed-up": "",
        "rate": "334 GFLOP/s",
        "of limit": "n/a",
        "peak memory": "n/a",
        "state": "ok ±0.4%",
    }


def test_bytes_and_items_are_rates_too() -> None:
    state = make_store("one gpu", *ran(rates=Rates(None, 26e9, 12.0)))
    assert cells(state)["rate"] == "26.0 GB/s"
    feed(state, *ran(rates=Rates(None, None, 1.2e6)))
    assert cells(state)["rate"] == "1.20 M samples/s"


# ---- groups and filter -------------------------------------------------------------------------


def names(
    state: WorkbenchState, pattern: str = "", folded: frozenset[str] = frozenset()
) -> list[str]:
    return [
        f"[{item.name}]" if isinstance(item, Group) else item.workload
        for item in build_entries(state.runs, pattern, folded)
    ]


def test_groups_come_in_the_order_of_their_first_workload() -> None:
    state = make_store()
    assert names(state) == ["[health]", "matmul", "[training]", "mlp", "[flags]", "conv2d"]


def test_a_folded_group_hides_its_workloads_but_not_from_the_filter() -> None:
    state, folded = make_store(), frozenset({"training"})
    assert "mlp" not in names(state, folded=folded)
    assert names(state, "mlp", folded) == ["[training]", "mlp"]


@pytest.mark.parametrize("pattern", ["conv 2-d", "CONV", "flags 2-d"])
def test_the_filter_looks_at_name_group_and_title(pattern: str) -> None:
    assert names(make_store(), pattern) == ["[flags]", "conv2d"]


def test_two_groups_may_have_the_name_of_a_workload() -> None:
    twin = replace(workload(), name="health")
    state = make_store("one gpu", hello(twin))
    assert names(state) == ["[health]", "health"]


def test_workloads_without_a_run_are_counted_once_instead_of_in_each_row() -> None:
    state = make_store("one gpu")
    assert format_not_run(state.runs) == ""
    for event in ran():
        state.publish(event)
    assert format_not_run(state.runs) == "2 not run"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (40, "matmul size=4096 float32 warm"),
        (28, "matmul size=4096 float32 …"),
        (20, "matmul size=4096 …"),
        (17, "matmul …"),
        (7, "matmul"),
    ],
)
def test_a_parameter_is_shown_in_full_or_not_at_all(cells: int, shown: str) -> None:
    assert cut_parameters(Span("matmul size=4096 float32 warm"), cells).text == shown
