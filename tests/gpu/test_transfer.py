"""Copies and placement on a GPU."""

from __future__ import annotations

import pytest

from tests.catalog.runs import column, numbers, ran, table
from workloads.protocol.results import RunResult, Setting

pytestmark = [pytest.mark.timeout(300)]

GPU = "cuda:0"


def on_gpu(name: str, **parameters: Setting) -> RunResult:
    result = ran(name, GPU, **parameters)
    assert (result.status, result.reason) == ("ok", None), result.trace
    return result


@pytest.mark.simulated_gpu
def test_placement_moves_the_model_and_copies_the_tensor() -> None:
    result = on_gpu("placement")
    assert set(column(result, "tensors", "before")) == {"cpu"}
    assert set(column(result, "tensors", "after")) == {GPU}
    assert result.figures["tensor_to"].value == "a new tensor"
    assert result.figures["tensor_to_again"].value == "the same tensor"
    assert result.figures["model_to"].value == "the model itself"
    assert result.figures["fallback_selects"].value == "cuda"
    assert "on the host, then .cuda" in column(result, "creation", "variant")


@pytest.mark.simulated_gpu
def test_copies_have_a_curve_for_each_way_and_kind_of_host_memory() -> None:
    result = on_gpu("copy_sizes")
    (chart,) = result.charts
    assert [series.name for series in chart.series] == [
        "pinned to device", "device to pinned", "pageable to device", "device to pageable"
    ]  # fmt: skip
    pinned, _, pageable, _ = (series.values[-1] for series in chart.series)
    assert pinned is not None
    assert pageable is not None
    assert pinned > 0.9 * pageable
    assert len(column(result, "ways", "variant")) == 5


@pytest.mark.simulated_gpu
def test_keeping_the_data_on_the_device_is_many_times_faster() -> None:
    kept = numbers(on_gpu("copies_in_loop"), "ways", "speed-up")[-1]
    assert kept > 3


@pytest.mark.simulated_gpu
def test_two_streams_take_less_than_one_and_no_less_than_the_longer_part() -> None:
    result = on_gpu("overlap")
    times = dict(
        zip(column(result, "parts", "part"), numbers(result, "parts", "time"), strict=True)
    )
    longer = max(times["copies alone"], times["products alone"])
    assert times["two streams"] < times["one stream"]
    assert times["two streams"] > 0.9 * longer


@pytest.mark.simulated_gpu
def test_copies_within_the_device_stay_below_its_bandwidth() -> None:
    result = on_gpu("device_copy", mib=1024)
    assert len(table(result, "operations").rows) == 4
    assert result.limit is None or 0.3 < result.limit.fraction <= 1.03


@pytest.mark.gpu
def test_a_copy_that_fits_into_the_cache_is_slower_once_it_was_flushed() -> None:
    result = on_gpu("device_copy", mib=4)
    ((verdict,),) = [column(result, "caches", "verdict")[1:]]
    assert verdict == "slower"
