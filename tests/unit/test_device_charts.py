"""A study's chart that compares a GPU with the CPU: drawn once, with its crossing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import queued, ran, result
from tui.kit.lines import TextStyle, plain
from tui.runs.state.runs import RunState
from tui.runs.views.chart import chart_lines
from tui.runs.views.detail import detail_lines
from tui.runs.views.device_charts import drop_contained, find_wins, name_devices
from workloads.protocol.results import Chart, RunResult, Series

PLACES = (4.0, 16.0, 64.0, 256.0)
CPU_TIMES = Series("CPU", "s", (1e-6, 2e-6, 4e-6, 16e-6))
OVERHEAD = Series("overhead", "%", (100.0, 90.0, 80.0, 30.0))
ON_CPU = Chart("widths", "time over width", "width", PLACES, (CPU_TIMES, OVERHEAD))
ON_GPU = replace(ON_CPU, series=(Series("CUDA", "s", (5e-6,) * 4), CPU_TIMES, OVERHEAD))


def drop(results: dict[str, RunResult], growing: str = "") -> dict[str, RunResult]:
    """Drop the CPU's charts of finished results, and of one that still grows."""
    request = queued("tiny", "cpu").request
    return drop_contained(
        {
            device: RunState(request, so_far=found)
            if device == growing
            else RunState(request, result=found)
            for device, found in results.items()
        }
    )


def wins(*times: float, unit: str = "s") -> list[str]:
    series = (Series("cuda:0", unit, times), Series("cpu", unit, CPU_TIMES.values))
    return [event.name for event in find_wins(replace(ON_GPU, series=series), "cuda:0")]


def test_a_chart_that_the_gpu_s_contains_is_dropped() -> None:
    results = {
        "cpu": result("tiny", "cpu", charts=(ON_CPU, replace(ON_CPU, name="other"))),
        "cuda:0": result("tiny", "cuda:0", charts=(ON_GPU,)),
    }
    left = drop(results)
    assert [chart.name for chart in left["cpu"].charts] == ["other"]
    assert left["cuda:0"] == results["cuda:0"]


@pytest.mark.parametrize(
    "other",
    [
        replace(ON_GPU, name="another"),
        replace(ON_GPU, series=ON_GPU.series[:1]),
        replace(ON_GPU, places=PLACES[:3]),
    ],
)
def test_a_chart_that_the_gpu_s_does_not_contain_stays(other: Chart) -> None:
    results = {
        "cpu": result("tiny", "cpu", charts=(ON_CPU,)),
        "cuda:0": result("tiny", "cuda:0", charts=(other,)),
    }
    assert drop(results) == results


def test_a_chart_that_still_grows_stands_for_the_places_to_come() -> None:
    results = {
        "cpu": result("tiny", "cpu", charts=(ON_CPU,)),
        "cuda:0": result("tiny", "cuda:0", charts=(replace(ON_GPU, places=PLACES[:2]),)),
    }
    assert drop(results) == results
    assert drop(results, growing="cuda:0")["cpu"].charts == ()


def test_charts_of_one_name_with_the_devices_own_series_both_stay() -> None:
    own = replace(ON_CPU, series=(Series("loop", "s", CPU_TIMES.values),))
    results = {name: result("loop", name, charts=(own,)) for name in ("cpu", "cuda:0")}
    assert drop(results) == results


def test_series_get_the_names_of_devices() -> None:
    names = [series.name for series in name_devices(ON_GPU, "cuda:1").series]
    assert names == ["cuda:1", "cpu", "overhead, cuda:1"]
    assert [series.name for series in name_devices(ON_CPU, "cpu").series] == ["cpu", "overhead"]
    assert name_devices(ON_CPU, "cuda:0") == ON_CPU


def test_the_winner_is_named_from_the_first_measured_place_after_the_crossing() -> None:
    (event,) = find_wins(name_devices(ON_GPU, "cuda:0"), "cuda:0")
    assert event.name == "cuda:0 wins from width 256"
    assert (event.place, event.style) == (256, TextStyle.GOOD)
    assert wins(5e-7, 5e-6, 5e-6, 5e-5) == ["cpu wins from width 16"]
    # Of several crossings, the last decides.
    assert wins(5e-7, 5e-6, 5e-6, 5e-6) == ["cuda:0 wins from width 256"]


def test_lines_that_cross_often_have_no_winner_in_green() -> None:
    times = Series("CUDA", "s", (5e-7, 5e-6, 5e-6, 5e-6))
    noisy = replace(ON_GPU, series=(times, CPU_TIMES), marks=("the GPU overtakes the CPU",))
    (event,) = find_wins(name_devices(noisy, "cuda:0"), "cuda:0")
    assert event.style is TextStyle.NOTE
    for chart, style in (
        (noisy, TextStyle.NOTE),
        (replace(noisy, series=ON_GPU.series), TextStyle.GOOD),
    ):
        rows = chart_lines(chart, {}, 60, device="cuda:0")
        (mark,) = [row for row in rows if "the GPU overtakes the CPU" in plain(row)]
        assert {span.style for span in mark if span.text.strip()} == {style}


def test_lines_that_do_not_cross_have_no_winner() -> None:
    assert wins(1e-7, 1e-7, 1e-7, 1e-7) == []
    assert wins(1e-3, 1e-3, 1e-3, 1e-3) == []
    assert wins(5e-6, 5e-6, 5e-6, 5e-6, unit="byte/s") == []


def test_the_detail_draws_one_plot_for_both_devices() -> None:
    store = make_store(
        "one gpu", *ran(device="cpu", charts=(ON_CPU,)), *ran(device="cuda:0", charts=(ON_GPU,))
    )
    words = "\n".join(map(plain, detail_lines(store.runs, "matmul", 100)))
    assert words.count("time over width") == 1
    assert "cuda:0 wins from width 256" in words
