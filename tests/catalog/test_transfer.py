"""Copies and placement: what they find on the CPU, and what is worked out from times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran
from tests.catalog.stand_ins import studied
from tests.tiers import with_variants
from workloads.catalog.training.overlap import hidden_share
from workloads.declare.place import Place

SECONDS = st.floats(1e-6, 1e3)


def test_placement_says_where_each_tensor_lies_and_what_to_returns() -> None:
    result = ok("placement", batch=4, width=8)
    assert column(result, "tensors", "after") == ["cpu"] * 4
    assert set(column(result, "tensors", "kind")) == {"parameter"}
    assert sum(numbers(result, "tensors", "size")) == 4 * (8 * 8 + 8 + 10 * 8 + 10)
    assert result.figures["tensor_to_again"].value == "the same tensor"
    assert result.figures["model_to"].value == "the model itself"
    assert result.figures["fallback_selects"].value in ("cpu", "cuda")
    assert len(column(result, "creation", "variant")) == 2


def test_a_transfer_on_the_cpu_is_both_copies_and_each_reads_and_writes() -> None:
    result = ok("transfer", mib=1)
    assert result.time is not None
    assert result.rates.byte_per_s is not None
    moved = result.rates.byte_per_s * result.time.median_s
    assert moved == pytest.approx(4 * 2**20)


def test_copies_by_size_give_a_curve_from_4_kib_to_the_largest() -> None:
    result = ok("copy_sizes", largest_mib=1)
    (chart,) = result.charts
    assert chart.places == (4096.0, 16384.0, 65536.0, 262144.0, 1048576.0)
    assert all(value and value > 0 for series in chart.series for value in series.values)
    assert chart.marks
    assert "CUDA" in result.unavailable["figures.pinned"]
    assert column(result, "ways", "variant")


@pytest.mark.parametrize(
    ("rates", "says"),
    [
        ((1.0, 9.0, 10.0, 10.0, 10.0), "copy: within 20% of its best from 16 KiB on"),
        ((1.0, 10.0, 4.0, 4.0, 4.0), "copy: best at 16 KiB, 40% of that at 1024 KiB"),
    ],
)
def test_a_curve_that_falls_off_is_not_said_to_stay_at_its_top(
    rates: tuple[float, ...], says: str
) -> None:
    sizes: tuple[float, ...] = (4096, 16384, 65536, 262144, 1048576)
    latency_s = 1e-6
    times = [2 * size / rate for size, rate in zip(sizes, rates, strict=True)]
    found = studied("copy_sizes", Place("cpu"), [*times, latency_s], largest_mib=1)
    (chart,) = found.charts
    assert chart.places == sizes
    assert chart.series[0].values == pytest.approx(rates)
    assert chart.marks == (says,)


def test_a_loop_that_copies_is_held_against_one_that_does_not() -> None:
    result = ok("copies_in_loop", mib=4, steps=2)
    ways = column(result, "ways", "variant")
    assert ways == [
        "copied in, result out, every step", "copied in every step", "kept on the device"
    ]  # fmt: skip
    assert numbers(result, "ways", "speed-up")[0] == 1.0


def test_copies_within_memory_count_what_they_read_and_write() -> None:
    result = ok("device_copy", mib=1)
    traffic = numbers(result, "operations", "traffic")
    assert [each / 2**20 for each in traffic] == [2, 1, 3, 1]
    for moved, time, rate in zip(
        traffic,
        numbers(result, "operations", "time"),
        numbers(result, "operations", "rate"),
        strict=True,
    ):
        assert rate == pytest.approx(moved / time)


@pytest.mark.parametrize("dtype", with_variants(["float32", "bfloat16"], ["float64", "float16"]))
def test_copies_within_memory_move_as_many_bytes_of_each_type(dtype: str) -> None:
    result = ok("device_copy", mib=1, dtype=dtype)
    assert result.time is not None
    assert result.rates.byte_per_s is not None
    assert result.rates.byte_per_s * result.time.median_s == pytest.approx(2 * 2**20)


def test_sizes_of_zero_go_by_the_kind_of_the_device_and_are_told() -> None:
    class Gpu(Place):
        @property
        def type(self) -> str:
            return "cuda"

    asked = {"mib": (0, (16, 256)), "batch": (3, (1, 32))}
    assert Place("cpu").sizes(**asked) == {"mib": 16, "batch": 3}
    assert Gpu("cpu").sizes(**asked) == {"mib": 256, "batch": 3}
    result = ok("copies_in_loop", steps=1)
    assert (result.parameters["mib"], result.chosen) == (0, {"mib": 16})


def test_overlap_needs_a_cuda_device() -> None:
    result = ran("overlap")
    assert (result.status, result.reason) == ("skipped", "runs on cuda only")


@given(SECONDS, SECONDS)
def test_all_is_hidden_when_both_take_as_long_as_the_longer(copy_s: float, work_s: float) -> None:
    both = copy_s + work_s
    assert hidden_share(copy_s, work_s, max(copy_s, work_s)) == pytest.approx(100)
    assert hidden_share(copy_s, work_s, both) == pytest.approx(0, abs=1e-6)
