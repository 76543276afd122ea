"""Sweeps: what is taken, what is refused in one line, and what is made of their runs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import make_store
from tests.screens.results import DEFAULTS, result, timing
from tui.kit.lines import TextStyle, plain, width
from tui.runs.state.events import ParametersSet, RunQueued, SweepSet
from tui.runs.state.parameters import (
    MOST_RUNS,
    Invalid,
    Sweep,
    Valid,
    make_sweep_example,
    parse_sweep,
    parse_values,
)
from tui.runs.state.state import WorkbenchState
from tui.runs.sweeps.sweep_result import (
    SweepResult,
    collect_sweep,
    describe_decided,
    format_sweep_progress,
)
from tui.runs.views.chart import crossing_lines, plot_rows
from tui.runs.views.detail import detail_lines
from tui.runs.views.result_text import format_sweeps
from tui.runs.views.workload_state import format_sweep_state
from tui.runs.views.workload_table import WorkloadRow, build_row
from workloads.protocol import messages
from workloads.protocol.results import UNTRUSTED, Check, ParameterInfo, TorchDevice, WorkloadInfo

SIZE = ParameterInfo("size", 4096, "rows", minimum=16, maximum=65_536)
DTYPE = ParameterInfo("dtype", "float32", "of the numbers", ("float32", "bfloat16", "float16"))
SHAPES = ParameterInfo("shape", "1,2", "of it", form=r"\d+,\d+", form_about="two numbers")
INFO = WorkloadInfo("matmul", "compute", "", "", "", (SIZE, DTYPE, SHAPES), ("cpu", "cuda"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("256..2048x2", (256, 512, 1024, 2048)),
        ("100..1000x3", (100, 300, 900)),
        ("16..24+4", (16, 20, 24)),
        ("16 .. 17 + 1", (16, 17)),
        ("256,1024,4096", (256, 1024, 4096)),
        ("16,32..64x2,32", (16, 32, 64)),
        ("4 096", (4096,)),
    ],
)
def test_a_range_or_list_stands_for_its_values(text: str, expected: tuple[int, ...]) -> None:
    assert parse_values(SIZE, text) == expected


def test_choices_are_listed_or_all() -> None:
    assert parse_values(DTYPE, "float32, bfloat16") == ("float32", "bfloat16")
    assert parse_values(DTYPE, "*") == DTYPE.choices


def test_a_text_that_is_allowed_as_it_stands_is_one_value() -> None:
    assert parse_values(SHAPES, "3,4") == ("3,4",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("256..1024", "write 256..1024x2 to multiply or 256..1024+1 to add"),
        ("1024..256x2", "does not ascend"),
        ("256..1024x1", "takes no step forward"),
        ("256..1024+0", "takes no step forward"),
        ("256..1024+-5", "takes no step forward"),
        ("a..bx2", "is no range"),
        ("16..nanx2", "does not ascend"),
        ("16..65536+1", f"more than {MOST_RUNS} values"),
        ("8..64x2", "8 is not allowed; whole number, 16 to 65536"),
        ("256,,512", "nothing is not allowed"),
        ("*", "* is for choices"),
    ],
)
def test_a_bad_range_is_refused_in_a_line_that_says_what_to_write(text: str, says: str) -> None:
    outcome = parse_sweep(INFO, {"size": text})
    assert isinstance(outcome, Invalid)
    (line,) = outcome.errors.values()
    assert says in line
    assert "\n" not in line


@given(st.text(max_size=24))
def test_any_text_gives_allowed_values_or_one_line(text: str) -> None:
    outcome = parse_sweep(INFO, {"size": text})
    if isinstance(outcome, Invalid):
        assert all("\n" not in line for line in outcome.errors.values())
    elif isinstance(outcome, Sweep):
        assert all(16 <= int(point["size"]) <= 65_536 for point in outcome.points)


@given(st.integers(16, 300), st.integers(16, 60_000), st.integers(2, 9))
def test_a_range_ascends_from_its_start_and_stays_below_its_end(
    low: int, high: int, by: int
) -> None:
    if low * by <= high:
        found = [int(value) for value in parse_values(SIZE, f"{low}..{high}x{by}")]
        assert found[0] == low
        assert found == sorted(set(found))
        assert found[-1] <= high < found[-1] * by


def test_several_swept_parameters_make_the_product() -> None:
    outcome = parse_sweep(INFO, {"size": "16,32", "dtype": "*"}, {"size": 64, "shape": "5,6"})
    assert isinstance(outcome, Sweep)
    assert len(outcome.points) == 6
    assert {point["shape"] for point in outcome.points} == {"5,6"}
    assert outcome.texts == {"size": "16,32", "dtype": "*"}


def test_too_many_runs_are_refused_with_their_number() -> None:
    outcome = parse_sweep(INFO, {"size": "16..48+1", "dtype": "*"})
    assert outcome == Invalid(
        {"size": "33 of size x 3 of dtype are 99 runs; a sweep has at most 64"}
    )


def test_a_single_value_is_no_sweep() -> None:
    assert isinstance(parse_sweep(INFO, {"size": "64"}), Valid)


@given(st.integers(0, 10**6), st.none() | st.integers(0, 10**4), st.none() | st.integers(1, 10**7))
def test_the_example_is_a_sweep_that_the_parameter_takes(
    default: int, lowest: int | None, highest: int | None
) -> None:
    lowest = min(default, lowest) if lowest is not None else None
    highest = max(2 * default, 2 * (lowest or 1), highest) if highest is not None else None
    info = ParameterInfo("n", default, "", minimum=lowest, maximum=highest)
    assert 2 <= len(parse_values(info, make_sweep_example(info))) <= MOST_RUNS


def test_the_example_for_a_product_begins_where_the_cpu_is_faster() -> None:
    assert (
        make_sweep_example(ParameterInfo("n", 2048, "", minimum=1, maximum=65536)) == "32..4096x2"
    )
    assert make_sweep_example(ParameterInfo("dtype", "float32", "", choices=("float32",))) == ""


@pytest.mark.parametrize("text", ["64,64", "64..64x2", "64..100x2", "64..65+9", "64..64+1,64"])
def test_a_range_or_list_of_one_value_is_refused(text: str) -> None:
    assert parse_sweep(INFO, {"size": text}) == Invalid(
        {
            "size": f"size: {text} is one value, 64; write 64 for it, or several: "
            "64..8192x2, 1..9+2 or 256,1024"
        }
    )


def test_a_list_of_one_choice_is_refused_with_the_choices() -> None:
    assert parse_sweep(INFO, {"dtype": "float16,float16"}) == Invalid(
        {
            "dtype": "dtype: float16,float16 is one value, float16; write float16 for it, or "
            "several: float32,bfloat16,float16 lists, * is every choice"
        }
    )


# ---- what comes of it --------------------------------------------------------------------------


def swept_store(
    cpu: dict[int, float],
    gpu: dict[int, float],
    dropped: int | None = None,
    batches: tuple[int, int] = (1, 1),
) -> WorkbenchState:
    sizes = sorted({*cpu, *gpu})
    points = tuple({**DEFAULTS, "size": size} for size in sizes)
    state = make_store("one gpu", SweepSet("matmul", Sweep({"size": "…"}, points)))
    for device, times in (("cpu", cpu), ("cuda:0", gpu)):
        for size, seconds in times.items():
            parameters = {**DEFAULTS, "size": size}
            name = f"{device} {size}"
            state.publish(RunQueued(messages.Run(name, "matmul", device, parameters, {})))
            chosen = {"batch": batches[0 if device == "cpu" else 1]}
            done = result(
                "matmul", device, id=name, parameters=parameters, time=timing(seconds),
                chosen=chosen,
            )  # fmt: skip
            if size == dropped:
                reason = "needs 12 GiB, 3 GiB are free"
                done = result(
                    "matmul", device, id=name, parameters=parameters, time=None,
                    status="skipped", reason=reason,
                )  # fmt: skip
            state.publish(messages.Finished(done))
    return state


def found(state: WorkbenchState) -> SweepResult:
    outcome = collect_sweep(state.runs, "matmul", ("cpu", "cuda:0"))
    assert outcome is not None
    return outcome


def test_the_crossover_lies_between_the_places_where_it_is_certain() -> None:
    state = swept_store({64: 1e-6, 128: 2e-5, 256: 9e-5}, {64: 2e-5, 128: 2e-5, 256: 2.1e-5})
    outcome = found(state)
    (crossing,) = outcome.crossovers
    assert (crossing.device, crossing.over) == ("cuda:0", "cpu")
    assert (crossing.after, crossing.by) == (64.0, 256.0)
    speed_up = outcome.charts[-1]
    assert speed_up.marks == ("cuda:0 overtakes cpu between size=64 and size=256",)
    assert speed_up.series[0].values[2] == pytest.approx(9e-5 / 2.1e-5)


def test_the_lines_cross_between_the_places_where_it_is_certain() -> None:
    state = swept_store({64: 1e-5, 128: 4e-5, 256: 1.6e-4}, {64: 4e-5, 128: 4e-5, 256: 4e-5})
    (crossing,) = found(state).crossovers
    assert crossing.place == pytest.approx(128.0)
    # From a quarter of the time to four times of it: in the middle, by ratios.
    (crossing,) = found(swept_store({64: 1e-5, 256: 1.6e-4}, {64: 4e-5, 256: 4e-5})).crossovers
    assert crossing.place == pytest.approx(128.0)


def mark_styles(outcome: SweepResult) -> set[TextStyle]:
    rows = crossing_lines(outcome, 100)
    return {span.style for row in rows for span in row if span.text.strip()}


def test_devices_that_change_places_often_have_no_sure_crossover() -> None:
    steady = dict.fromkeys((64, 128, 256, 512), 2e-05)
    outcome = found(swept_store({64: 1e-6, 128: 1e-3, 256: 1e-6, 512: 1e-3}, steady))
    assert [crossing.trusted for crossing in outcome.crossovers] == [False] * 3
    assert outcome.charts[-1].marks == (
        "cuda:0 and cpu overtake each other 3 times, last between size=256 and size=512",
    )
    assert mark_styles(outcome) == {TextStyle.NOTE}


@pytest.mark.parametrize(
    ("size", "words", "style"),
    [
        (
            256,
            "cuda:0 may overtake cpu between size=128 and size=256: "
            "some of these times are not trusted",
            TextStyle.NOTE,
        ),
        (64, "cuda:0 overtakes cpu between size=128 and size=256", TextStyle.GOOD),
    ],
)
def test_a_crossover_beside_a_distrusted_time_is_doubted(
    size: int, words: str, style: TextStyle
) -> None:
    steady = dict.fromkeys((64, 128, 256), 2e-05)
    state = swept_store({64: 1e-6, 128: 1e-6, 256: 1e-3}, steady)
    distrust(state, f"cpu {size}")
    outcome = found(state)
    assert outcome.charts[-1].marks == (words,)
    assert mark_styles(outcome) == {style}
    plot = "\n".join(map(plain, plot_rows(outcome, 100)))
    assert ("may overtake" in plot) == (style is TextStyle.NOTE)


def test_who_is_faster_by_distrusted_times_is_doubted() -> None:
    state = swept_store({64: 1e-4, 128: 2e-4}, {64: 1e-5, 128: 1e-5})
    distrust(state, "cpu 64")
    assert found(state).charts[-1].marks == (
        "cuda:0 may be faster than cpu from size=64 to 128: no crossover, "
        "but some of these times are not trusted",
    )
    assert mark_styles(found(state)) == {TextStyle.NOTE}


def distrust(state: WorkbenchState, run_id: str) -> None:
    """Add to a result the warning that its time is not to be trusted."""
    ended = state.runs.book[run_id].result
    assert ended is not None
    warning = f"other programs used 1.2 cores: {UNTRUSTED}"
    state.publish(messages.Finished(replace(ended, warnings=(warning,))))


def test_a_rate_is_drawn_below_the_limit_it_is_held_against() -> None:
    state = swept_store({64: 1e-5, 128: 1e-4}, {64: 2e-5, 128: 3e-5})
    outcome = found(state)
    (limit,) = outcome.limits
    assert (limit.label, limit.value) == ("cuda:0 float32 peak", 67e12)
    rows = [plain(row) for row in plot_rows(outcome, 70)]
    at = next(at for at, row in enumerate(rows) if row.startswith("rate over size"))
    times, rates = rows[:at], rows[at:]
    assert any("cuda:0 float32 peak" in row for row in rates)
    assert not any("float32" in row for row in times)
    for plot in (times, rates):
        assert any("▾ cuda:0 overtakes" in row for row in plot)


@pytest.mark.parametrize("cells", [24, 50, 80, 103, 200])
def test_two_plots_stand_side_by_side_where_there_is_room(cells: int) -> None:
    state = swept_store({64: 1e-5, 128: 1e-4}, {64: 2e-5, 128: 3e-5})
    rows = plot_rows(found(state), cells)
    together = any("time over" in plain(row) and "rate over" in plain(row) for row in rows)
    assert together == (cells >= 103)
    assert all(width(row) <= cells for row in rows)


def test_devices_that_each_had_a_size_of_its_own_are_not_held_against_each_other() -> None:
    outcome = found(swept_store({64: 1e-6, 128: 9e-5}, {64: 2e-5, 128: 2e-5}, batches=(1, 32)))
    assert outcome.crossovers == ()
    assert outcome.charts[-1].series[0].values == (None, None)
    speed_ups = [each.name for each in outcome.table.columns].index("cuda:0 speed-up")
    assert [row[speed_ups] for row in outcome.table.rows] == [None, None]


def test_without_a_crossover_the_faster_one_is_named() -> None:
    outcome = found(swept_store({64: 1e-4, 128: 2e-4}, {64: 1e-5, 128: 1e-5}))
    assert outcome.crossovers == ()
    assert outcome.charts[-1].marks == (
        "cuda:0 is faster than cpu from size=64 to 128: no crossover",
    )


def test_only_places_that_are_decided_are_in_the_sentence() -> None:
    alike = {32: 2e-5, 64: 2e-5}
    state = swept_store({**alike, 128: 9e-5, 256: 9e-4}, {**alike, 128: 2e-5, 256: 2e-5})
    (words,) = found(state).charts[-1].marks
    assert words == "cuda:0 is faster than cpu from size=128; undecided below: no crossover"


@given(st.lists(st.booleans(), min_size=1, max_size=9).filter(any))
def test_the_sentence_claims_no_place_that_is_not_decided(which: list[bool]) -> None:
    places = [float(2**number) for number in range(len(which))]
    decided = {place: 1 for place, sure in zip(places, which, strict=True) if sure}
    words = describe_decided("n", places, decided)
    numbers = [float(each) for each in re.findall(r"[\d.]+", words.partition(";")[0])]
    if words.startswith("from") and " to " not in words:
        claimed = [place for place in places if place >= numbers[0]]
    elif words.startswith("up to"):
        claimed = [place for place in places if place <= numbers[0]]
    elif words.startswith("from"):
        claimed = [place for place in places if numbers[0] <= place <= numbers[1]]
    else:
        claimed = numbers
    assert claimed == list(decided)
    assert ("undecided" in words) == (not all(which))


@pytest.mark.parametrize("check", [Check(False, 1.0, 1e-4, "float64"), None])
def test_a_wrong_result_is_faster_than_nothing(check: Check | None) -> None:
    state = swept_store({64: 1e-4, 128: 2e-4}, {64: 1e-5, 128: 4e-5})
    for size in (64, 128):
        parameters = {**DEFAULTS, "size": size}
        run_id = f"wrong {size}"
        state.publish(RunQueued(messages.Run(run_id, "matmul", "cuda:0", parameters, {})))
        wrong = result(
            "matmul", "cuda:0", id=run_id, parameters=parameters, status="failed",
            reason="wrong result", check=check,
        )  # fmt: skip
        state.publish(messages.Finished(wrong))
    outcome = found(state)
    assert outcome.crossovers == ()
    assert outcome.limits == ()
    # A failed run has no valid time: no point, no line, no cell of the table.
    (times,) = [chart for chart in outcome.charts if chart.name == "time"]
    assert {series.name: series.values for series in times.series}["cuda:0"] == (None, None)
    at = [column.name for column in outcome.table.columns].index("cuda:0 time")
    assert [(row[1], row[at]) for row in outcome.table.rows] == [(1e-4, None), (2e-4, None)]
    assert outcome.unavailable["charts.time.cuda:0 size=64"] == "failed: wrong result"
    assert [chart.name for chart in outcome.charts if chart.name == "rate"] in ([], ["rate"])
    assert outcome.charts[-1].series[0].values == (None, None)
    assert the_row(state).cells["speed-up"].text in ("", "n/a")
    words = "\n".join(plain(line) for line in detail_lines(state.runs, "matmul", 100))
    assert "as fast as" not in words
    assert "% of float32" not in words


def test_a_size_that_was_refused_is_a_gap_with_its_reason() -> None:
    outcome = found(swept_store({64: 1e-4, 128: 2e-4}, {64: 1e-5, 128: 1e-5}, dropped=128))
    assert outcome.charts[0].series[1].values == (1e-5, None)
    assert outcome.unavailable["charts.time.cuda:0 size=128"].startswith("skipped: needs 12 GiB")
    assert format_sweep_progress(outcome) == "4 of 4 runs, 2 skipped"


def publish_ended(state: WorkbenchState, size: int, **changes: Any) -> None:
    """Publish a newer run on the CPU."""
    parameters = {**DEFAULTS, "size": size}
    name = f"newer {size}"
    state.publish(RunQueued(messages.Run(name, "matmul", "cpu", parameters, {})))
    ended = result("matmul", "cpu", id=name, parameters=parameters, **changes)
    state.publish(messages.Finished(ended))


def test_a_cancelled_run_is_not_one_of_those_that_ran() -> None:
    state = swept_store({64: 1e-4}, {64: 1e-5, 128: 1e-5})
    publish_ended(state, 128, status="cancelled", reason="before it began", time=None)
    assert format_sweep_progress(found(state)) == "3 of 4 runs, 1 cancelled"


def test_the_table_says_which_time_is_not_trusted() -> None:
    state = swept_store({64: 1e-4}, {64: 1e-5, 128: 1e-5})
    publish_ended(state, 128, time=timing(1e-4), warnings=(f"noisy: {UNTRUSTED}",))
    assert [row[-1] for row in found(state).table.rows] == ["ok", "cpu not trusted; cuda:0 ok"]
    noisy = result("matmul", "cuda:0", id="newer", parameters={**DEFAULTS, "size": 64})
    state.publish(RunQueued(messages.Run("newer", "matmul", "cuda:0", noisy.parameters, {})))
    state.publish(messages.Finished(replace(noisy, warnings=("noisy",))))
    assert found(state).table.rows[0][-1] == "cpu ok; cuda:0 ok, 1 warning"
    forms = format_sweep_state(found(state), state.runs.sweeps["matmul"])
    assert [plain(form) for form in forms] == ["! 4/4 ok, 1 not trusted", "! 4/4"]


def test_a_sweep_on_the_cpu_alone_answers_that_there_is_no_crossover() -> None:
    state = swept_store({64: 1e-4, 128: 2e-4}, {})
    entries = [run for run in state.runs.book.values() if run.request.device == "cpu"]
    assert "    ran on cpu alone: no crossover\n" in format_sweeps(state.runs, entries)
    machine = state.runs.machine
    assert machine.environment is not None
    cpu = TorchDevice("cpu", "AMD EPYC")
    machine.environment = replace(machine.environment, devices=(cpu,))
    assert "    no GPU: no crossover\n" in format_sweeps(state.runs, entries)


def test_the_screen_shows_how_far_it_is_and_the_curves() -> None:
    state = swept_store({64: 1e-6, 128: 2e-5, 256: 9e-5}, {64: 2e-5})
    info = next(item for item in state.runs.catalogue if item.name == "matmul")
    shown = build_row(state.runs, info)
    assert shown.name.text == "matmul size=64 (sweep) size=… float32"
    assert shown.cells["cuda:0"].text == "20.0 µs"
    assert shown.cells["cpu"].text == "1.00 µs"
    assert plain(shown.state).startswith("4/6")
    words = "\n".join(plain(line) for line in detail_lines(state.runs, "matmul", 80))
    for expected in (
        "Sweep  4 of 6 runs",
        "time over size",
        "last of the sweep: size=256",
    ):
        assert expected in words
    state.publish(ParametersSet("matmul", DEFAULTS))
    assert collect_sweep(state.runs, "matmul", ("cpu",)) is None


def the_row(state: WorkbenchState) -> WorkloadRow:
    return build_row(
        state.runs, next(item for item in state.runs.catalogue if item.name == "matmul")
    )


def test_the_row_s_figures_are_those_of_the_value_in_its_name() -> None:
    state = swept_store({64: 1e-4, 128: 2e-4}, {64: 1e-5, 128: 4e-5})
    shown = the_row(state)
    assert shown.name.text == "matmul size=128 (sweep) size=… float32"
    assert [shown.cells[name].text for name in ("cpu", "cuda:0", "speed-up")] == [
        "200 µs", "40.0 µs", "5.00x",
    ]  # fmt: skip


def test_a_size_without_a_time_does_not_hide_the_others() -> None:
    state = swept_store({64: 1e-4, 128: 2e-4}, {64: 1e-5, 128: 1e-5}, dropped=128)
    assert the_row(state).name.text == "matmul size=64 (sweep) size=… float32"
    assert plain(the_row(state).state) == "4/4, 2 skipped"


def test_before_any_has_ended_the_sweep_alone_is_named() -> None:
    state = make_store("one gpu", SweepSet("matmul", sweep_of(64, 128)))
    assert the_row(state).name.text == "matmul size=… float32"


def test_a_sweep_marks_other_parameters_that_were_changed() -> None:
    points = tuple({**DEFAULTS, "size": size, "dtype": "float16"} for size in (64, 128))
    state = make_store("one gpu", SweepSet("matmul", Sweep({"size": "64,128"}, points)))
    assert the_row(state).name.text == "matmul* size=64,128 float16"


def test_a_run_of_the_demo_is_no_point_of_a_sweep() -> None:
    state = make_store("one gpu", SweepSet("matmul", sweep_of(64, 4096)))
    request = messages.Run("demo", "matmul", "cpu", DEFAULTS, {})
    state.publish(RunQueued(request, demo=True))
    state.publish(messages.Finished(result("matmul", "cpu", id="demo")))
    assert found(state).done == 0


def test_a_finished_sweep_that_is_asked_for_again_and_cancelled_is_as_it_was() -> None:
    state = swept_store({64: 1e-6, 128: 2e-5}, {64: 1e-5, 128: 1e-5})
    before = found(state)
    for place, (point, runs) in enumerate(before.points):
        for device in runs:
            state.publish(RunQueued(messages.Run(f"{device} {place}", "matmul", device, point, {})))
    again = found(state)
    assert again.done == 0
    assert again.points == before.points, "the figures stay until the new ones come"
    words = "\n".join(plain(row) for row in detail_lines(state.runs, "matmul", 80))
    assert "Sweep  0 of 4 runs" in words
    assert "time over size" in words
    assert plain(the_row(state).state).startswith("0/4 last size=")
    for run_id in state.runs.pending():
        state.publish(messages.Rejected(run_id, "before it began", "cancelled"))
    assert found(state) == before


def test_a_point_that_is_measured_again_has_its_new_figures_at_its_end() -> None:
    state = swept_store({64: 1e-6}, {64: 2e-5})
    point = {**DEFAULTS, "size": 64}
    state.publish(RunQueued(messages.Run("again", "matmul", "cpu", point, {})))
    assert found(state).done == 1
    again = result("matmul", "cpu", id="again", parameters=point, time=timing(5e-6))
    state.publish(messages.Finished(again))
    assert found(state).done == 2
    assert found(state).charts[0].series[0].values == (5e-6,)


def sweep_of(*sizes: int) -> Sweep:
    return Sweep({"size": "…"}, tuple({**DEFAULTS, "size": size} for size in sizes))


def test_choices_alone_are_bars() -> None:
    points = tuple({**DEFAULTS, "dtype": name} for name in ("float32", "bfloat16"))
    state = make_store("one gpu", SweepSet("matmul", Sweep({"dtype": "*"}, points)))
    outcome = found(state)
    assert outcome.axis == ""
    assert outcome.charts[0].labels == ("float32", "bfloat16")
