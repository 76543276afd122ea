"""The detail: nothing that a result holds is missing from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import HOSTILE, gpu, hello, make_store, sample, uuid, workload
from tests.screens.results import busy, progress, queued, ran, result, timing
from tui.devices.state.machine import SIMULATED, DeviceSelected
from tui.kit.lines import plain, width
from tui.runs.state.events import ConditionsRecorded, FlagSet, ParametersSet, RunQueued
from tui.runs.state.runs import TOO_SHORT, Conditions
from tui.runs.state.state import WorkbenchState
from tui.runs.views.detail import detail_lines, format_for_clipboard
from workloads.protocol.results import Chart, Check, Figure, Series


def shown(state: WorkbenchState, name: str | None = "matmul", cells: int = 100) -> list[str]:
    return [plain(row) for row in detail_lines(state.runs, name, cells)]


def said(state: WorkbenchState, name: str = "matmul") -> str:
    return " ".join(row.strip() for row in shown(state, name))


def test_nothing_is_selected() -> None:
    assert shown(make_store(), None) == ["no workload is selected"]


def test_what_it_is_and_what_to_look_for_come_first() -> None:
    assert shown(make_store())[:11] == [
        "matmul: matrix product",
        "Two square matrices multiplied.",
        "",
        "Look for: How near it comes to the device's limit.",
        "",
        "Parameters  = edits",
        "  size = 4096: rows and columns (whole number, 16 to 65536)",
        "  dtype = float32: element type (float32, bfloat16, float16)",
        "",
        "What is timed",
        "  c = a @ b",
    ]


def test_a_changed_parameter_names_its_default() -> None:
    state = make_store("one gpu", ParametersSet("matmul", {"size": 64, "dtype": "float32"}))
    rows = shown(state)
    assert "Parameters  = edits, there F5 puts the defaults back" in rows
    assert "* size = 64 (default 4096): rows and columns (whole number, 16 to 65536)" in rows
    assert "  dtype = float32: element type (float32, bfloat16, float16)" in rows


def test_a_selected_gpu_that_torch_does_not_see_is_skipped_and_says_why() -> None:
    state = make_store("one gpu", sample(gpu(0), gpu(1)), DeviceSelected(uuid(1)))
    assert "nvml:1 skipped: not among the devices that torch sees" in said(state)
    seen = make_store("one gpu", sample(gpu(0), gpu(1)))
    assert "skipped: " not in said(seen)


def test_a_run_of_the_demo_is_called_one() -> None:
    request, done = ran()
    assert isinstance(request, RunQueued)
    state = make_store("one gpu", RunQueued(request.request, demo=True), done)
    assert "── cuda:0 a quick run of the presentation" in shown(state)


def test_a_result_is_shown_in_full() -> None:
    state = make_store("one gpu", *ran())
    rows = shown(state)
    assert rows[rows.index("── cuda:0 ") :] == [
        "── cuda:0 ",
        "ok",
        "median 2.71 ms by the device clock   95% interval 2.70 ms to 2.72 ms (±0.4%)",
        "quartiles 2.70 ms to 2.73 ms   min 2.68 ms   p95 2.85 ms   first call 380 ms   "
        "blocks 42   calls 420",
        "stopped by median known to ±0.50%   wall 2.74 ms   device 2.71 ms   enqueue 12.0 µs",
        "page faults per call 0",
        "rate 50.7 TFLOP/s",
        "76% of float32: 67.0 TFLOP/s, published dense peak",
        "allocated peak 201 MiB   reserved peak 256 MiB",
        "check passed: error 1.2e-06 ≤ 0.0001 against 64 rows, in float64 on the CPU",
        "naive timing too fast by: 118x (right time over naive time)",
        "flags: cudnn.enabled on, cudnn.benchmark off, cudnn.deterministic off, "
        "cudnn.conv.fp32_precision",
        "  tf32",
    ]


def test_what_is_missing_comes_with_its_reason() -> None:
    few = timing(ci95_s=None, p95_s=None)
    why = {
        "time.ci95_s": "an interval needs six blocks",
        "time.p95_s": "needs 20 calls timed one by one",
        "figures.loss": "it was cancelled",
        "limit": "no limit is known for this CPU",
    }
    figures = {"loss": Figure(None)}
    words = said(
        make_store(
            "one gpu", *ran("matmul", "cpu", time=few, unavailable=why, figures=figures, limit=None)
        )
    )
    assert f"no 95% interval: {why.pop('time.ci95_s')}" in words
    for reason in why.values():
        assert f"n/a: {reason}" in words


def test_a_failure_shows_its_reason_and_its_traceback() -> None:
    trace = "Traceback:\n  File 'x'\nRuntimeError: [cuda:0]"
    state = make_store("one gpu", *ran(status="failed", time=None, reason=HOSTILE, trace=trace))
    rows = shown(state)
    assert f"failed: {HOSTILE}" in rows
    assert rows[-4:] == ["Traceback", "  Traceback:", "    File 'x'", "  RuntimeError: [cuda:0]"]


def test_a_wrong_result_is_called_wrong() -> None:
    state = make_store("one gpu", *ran(check=Check(False, 0.5, 1e-4, "float64")))
    assert "check FAILED: the result is wrong: error 0.5 > 0.0001 against float64" in said(state)


def test_other_flags_are_named() -> None:
    convolution = hello(workload(convolutions="only"))
    state = make_store("one gpu", convolution, *ran(), FlagSet("cudnn.benchmark", True))
    assert "ran with other flags: cudnn.benchmark was off" in said(state)


def test_the_device_during_the_run_is_shown() -> None:
    state = make_store("one gpu", *ran())
    seen = Conditions(5, 1200, 1980.0, 690.0, 81.0, ("sw_power_cap",), None, ("throttled: heat",))
    state.publish(ConditionsRecorded(result().id, seen))
    assert "SM clock 1980 MHz (lowest 1200 MHz)" in said(state)
    assert "throttle reasons sw_power_cap" in said(state)
    assert "! throttled: heat" in said(state)


def test_what_was_left_to_the_device_is_told_as_it_was_used() -> None:
    asked = {"n": 0, "dtype": "float32"}
    used = {"n": 8192, "dtype": "float32"}
    state = make_store("one gpu", *ran(parameters=asked, chosen=used))
    assert "for this kind of device: n=8192" in shown(state)
    assert "dtype=float32" not in said(state).partition("for this kind of device")[2]


def test_a_run_too_short_for_a_sample_says_so() -> None:
    state = make_store("one gpu", *ran())
    names = {"sm_clock_mhz_min": TOO_SHORT}
    none = Conditions(0, None, None, None, None, (), None, unavailable=names)
    state.publish(ConditionsRecorded(result().id, none))
    assert f"device during the run n/a: {TOO_SHORT}" in said(state)


def test_states_without_a_result() -> None:
    state = make_store("one gpu", hello(workload(devices=("cuda",))), queued())
    assert "does not run here: it is made for cuda" in shown(state)
    assert "queued" in shown(state)
    state.publish(progress())
    assert "7 blocks, 213 µs ±1.1% so far, ≤4 s left" in shown(state)


def test_figures_are_written_in_their_units() -> None:
    figures = {
        "a": Figure(0.0019, "s"),
        "b": Figure(2**30, "byte"),
        "c": Figure(26e9, "byte/s"),
        "d": Figure("channels last"),
        "e": Figure(0.6931, "", "loss"),
    }
    words = said(make_store("one gpu", *ran(figures=figures)))
    for expected in (
        "a: 1.90 ms",
        "b: 1.0 GiB",
        "c: 26.0 GB/s",
        "d: channels last",
        "e: 0.6931 (loss)",
    ):
        assert expected in words


def test_the_copied_text_names_what_the_figures_depend_on() -> None:
    state = make_store("one gpu", *ran())
    copied = format_for_clipboard(state.runs, "matmul")
    assert "median 2.71 ms" in copied
    assert "torch 2.13.0+cu130" in copied
    assert "driver 580.159.03" in copied
    assert SIMULATED not in copied
    state.machine.simulated = True
    assert SIMULATED in format_for_clipboard(state.runs, "matmul")


@given(st.integers(min_value=24, max_value=160), st.text(max_size=60))
def test_no_line_is_wider_than_the_pane(cells: int, hostile: str) -> None:
    state = make_store("one gpu", hello(workload(about=hostile, code=hostile, title=hostile)))
    busy_store = make_store("one gpu", *ran(reason=hostile, warnings=(hostile,), trace=hostile))
    busy(state)
    for item in (state, busy_store):
        assert all(width(row) <= cells for row in detail_lines(item.runs, "matmul", cells))


def test_after_a_run_the_result_comes_first_then_its_plots_then_what_to_look_for() -> None:
    places = (32.0, 64.0, 128.0)
    charts = tuple(
        Chart(name, f"{name} over n", "n", places, (Series("cpu", "s", (1e-3, 2e-3, 4e-3)),))
        for name in ("first", "second")
    )
    state = make_store("one gpu", *ran(charts=charts, warnings=("hot",)))
    for cells in (60, 120):
        rows = shown(state, cells=cells)
        order = ["2.71 ms", "76% of float32 peak", "! hot", "first over n, cuda:0"]
        order += ["Two square matrices", "Look for: ", "Parameters", "quartiles", "flags: "]
        places_of = [next(at for at, row in enumerate(rows) if words in row) for words in order]
        assert places_of == sorted(places_of)
        titles = [at for at, row in enumerate(rows) if "over n, cuda:0" in row]
        assert len(titles) == (1 if cells >= 103 else 2)
        # Every figure is told below, and a warning once.
        assert sum("! hot" in row for row in rows) == 1


def test_more_rows_of_an_outcome_leave_fewer_to_the_plot() -> None:
    chart = Chart("first", "", "n", (32.0, 64.0), (Series("cpu", "s", (1e-3, 2e-3)),))

    def rows_to_the_ticks(*warnings: str) -> int:
        state = make_store("one gpu", *ran(charts=(chart,), warnings=warnings))
        rows = [plain(row) for row in detail_lines(state.runs, "matmul", 100, height=14)]
        return next(at for at, row in enumerate(rows) if "└" in row)

    assert rows_to_the_ticks() == rows_to_the_ticks("hot") == rows_to_the_ticks("hot", "slow")


def test_plots_of_two_units_share_the_rows_where_each_stays_legible() -> None:
    times, shares = Series("cpu", "s", (1e-3, 2e-3)), Series("overhead", "%", (90.0, 80.0))
    chart = Chart("both", "", "n", (32.0, 64.0), (times, shares))
    state = make_store("one gpu", *ran(charts=(chart,)))

    def rows_to_the_last_ticks(height: int) -> int:
        rows = [plain(row) for row in detail_lines(state.runs, "matmul", 100, height=height)]
        return max(at for at, row in enumerate(rows) if "└" in row)

    assert rows_to_the_last_ticks(24) < 30
    assert rows_to_the_last_ticks(12) > 20, "too low for two: each has all rows"


def test_many_warnings_are_counted_above_and_in_full_below() -> None:
    many = tuple(f"warning number {number}" for number in range(7))
    state = make_store("one gpu", *ran(warnings=many))
    words = said(state)
    assert "7 warnings (below)" in words
    brief = detail_lines(state.runs, "matmul", 100, brief_rows=12)
    assert "7 warnings (i)" in " ".join(map(plain, brief))
    assert all(words.count(item) == 1 for item in many)
