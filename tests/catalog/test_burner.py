"""A burn's comparisons: a single wrong bit is found, with its device, time and temperature."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran, table
from tests.tiers import VARIANT
from workloads.catalog.health import burn, burner
from workloads.catalog.health.burn import WrongProducts, describe_wrong
from workloads.catalog.health.burner import NOT_CUDA, Burner, Steady, find_steady
from workloads.measure.nvml import DeviceState
from workloads.protocol.results import RunResult

N = 32


def _factors(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(N, N, generator=generator).to(dtype) for _ in range(2))
    return a, b


class Flipping(Burner):
    """A device that flips the last bit of an entry in one product, counted from 1."""

    wrong_product = 0
    count = 0

    def _multiply(self, products: int) -> None:
        for _ in range(products):
            super()._multiply(1)
            self.count += 1
            if self.count == self.wrong_product:
                self._out.view(self._bits)[3, 4] ^= 1


def _flipping(at: int, every: int | None, dtype: torch.dtype = torch.float32) -> Flipping:
    made = Flipping("cpu", *_factors(dtype), every)
    made.wrong_product = at
    made._tolerance = None  # as on a GPU
    return made


def test_a_product_that_changes_is_counted() -> None:
    a, b = _factors()
    made = Burner("cpu", a, b)
    made.start(1)
    assert made.finish().wrong == 0
    a[3] *= 2
    made.start(1)
    assert made.finish().wrong == N
    a[3, 0] = float("nan")
    made.start(1)
    tick = made.finish()
    assert (tick.wrong, tick.compared) == (N, 1)
    assert tick.rate > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_one_wrong_bit_in_a_compared_product_is_found(dtype: torch.dtype) -> None:
    made = _flipping(at=4, every=2, dtype=dtype)
    made.start(10)
    tick = made.finish()
    assert (tick.wrong, tick.compared) == (1, 5)
    made.start(10)
    assert made.finish().wrong == 0


def test_a_wrong_product_that_is_not_compared_is_overwritten() -> None:
    made = _flipping(at=4, every=None)
    made.start(10)
    tick = made.finish()
    assert (tick.wrong, tick.compared) == (0, 1)


@pytest.mark.parametrize(("products", "compared"), [(7, 4), (6, 3), (1, 1)])
def test_the_last_product_of_a_tick_is_compared_too(products: int, compared: int) -> None:
    made = _flipping(at=products, every=2)
    made.start(products)
    tick = made.finish()
    assert (tick.wrong, tick.compared) == (1, compared)


def test_a_cpu_may_sum_in_another_order() -> None:
    made = Flipping("cpu", *_factors(), 1)
    made.wrong_product = 2
    made.start(3)
    assert made.finish().wrong == 0


@VARIANT
def test_a_verified_burn_says_how_often_it_compared() -> None:
    result = ok("burn", seconds=1, n=64, verify="on", every=5)
    ticks = len(result.charts[0].places)
    compared = result.figures["compared_products"].value
    assert isinstance(compared, float)
    assert compared > ticks
    assert result.figures["wrong_entries"].value == 0.0
    assert any("may sum in another order" in line for line in result.log)
    assert result.figures["steady_clock"].value is None
    assert result.unavailable["figures.steady_clock"] == NOT_CUDA
    assert result.unavailable["tables.devices.hottest"] == NOT_CUDA


@VARIANT
def test_a_plain_burn_compares_one_product_a_tick() -> None:
    result = ok("burn", seconds=1, n=64)
    assert result.figures["compared_products"].value == float(len(result.charts[0].places))


class Hot(Flipping):
    """A device that warms up, whose clock falls for a second, and that flips a bit."""

    wrong_product = 1
    samples = 0

    def __init__(
        self, name: str, a: torch.Tensor, b: torch.Tensor, every: int | None = None
    ) -> None:
        super().__init__(name, a, b, every)
        self._tolerance = None

    def read_state(self) -> DeviceState:
        self.samples += 1
        return DeviceState(60 + self.samples, max(1500, 2000 - 200 * self.samples))


def _hot(monkeypatch: pytest.MonkeyPatch) -> RunResult:
    monkeypatch.setattr(burn, "Burner", Hot)
    monkeypatch.setattr(burn, "TICK_S", 1e-4)
    return ran("burn", seconds=1, n=64, verify="on", every=1)


def test_a_wrong_bit_is_reported_with_device_time_and_temperature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = _hot(monkeypatch)
    assert result.status == "failed"
    form = r"cpu: 1 entry, first after \d+\.\d s \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, at 61 °C\)"
    assert re.search(form, result.reason or "")
    (row,) = table(result, "wrong").rows
    assert (row[0], row[3], row[4]) == ("cpu", 1.0, 61.0)
    assert numbers(result, "devices", "wrong entries") == [1.0]


def test_the_steady_clock_and_the_time_to_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hot, "wrong_product", 0)
    result = _hot(monkeypatch)
    assert (result.status, result.reason) == ("ok", None)
    assert result.figures["steady_clock"].value == 1500.0
    after = result.figures["steady_after"].value
    chart = next(chart for chart in result.charts if chart.name == "clocks")
    # The third sample is the first at 1500 MHz, and the medians around earlier ones are near it.
    assert isinstance(after, float)
    assert 0 <= after <= chart.places[2] + 0.01
    assert column(result, "devices", "steady clock") == [1500.0]
    assert numbers(result, "devices", "hottest")[0] >= 63


@VARIANT
def test_a_table_of_wrong_products_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burn, "MOST_ROWS", 2)
    monkeypatch.setattr(burn, "TICK_S", 1e-4)

    class Broken(Hot):
        def _multiply(self, products: int) -> None:
            super()._multiply(products)
            self._out.zero_()

    monkeypatch.setattr(burn, "Burner", Broken)
    result = ran("burn", seconds=1, n=16, verify="on", every=100)
    assert result.status == "failed"
    assert len(table(result, "wrong").rows) == 2
    assert sum("the table has the first ones" in line for line in result.log) == 1


def test_each_device_s_first_wrong_product_is_named() -> None:
    wrong = [
        WrongProducts("cuda:1", 1.26, 0.0, 2, 71),
        WrongProducts("cuda:0", 2.0, 0.0, 1, None),
        WrongProducts("cuda:1", 3.0, 0.0, 5, 80),
    ]
    at = wrong[0].time
    assert describe_wrong(wrong) == (
        "entries that changed from product to product: "
        f"cuda:1: 7 entries, first after 1.3 s ({at}, at 71 °C); "
        f"cuda:0: 1 entry, first after 2.0 s ({at})"
    )


def test_a_clock_that_settles_is_steady_from_there_on() -> None:
    falling = [(0.25 * index, 1980.0 - 60 * min(index, 4)) for index in range(12)]
    # The median of the second around it is near the end's before the clock itself is.
    assert find_steady(falling) == Steady(1740.0, 0.75)
    assert find_steady([(float(at), 1980.0) for at in range(8)]) == Steady(1980.0, 0.0)
    # A step of 15 MHz is no change.
    steps = [(float(at), 1980.0 + 15 * (at % 2)) for at in range(8)]
    found = find_steady(steps)
    assert isinstance(found, Steady)
    assert found.after_s == 0.0


def test_a_clock_that_jumps_around_its_median_is_steady() -> None:
    """The clock of an H100 at its power cap, as read every quarter of a second."""
    jumps = (1365.0, 1395.0, 1350.0, 1335.0, 1380.0, 1410.0, 1365.0, 1320.0)
    start = [(0.25 * index, 1980.0 - 60 * index) for index in range(10)]
    power_capped = [(2.5 + 0.25 * index, jumps[index % len(jumps)]) for index in range(40)]
    found = find_steady(start + power_capped)
    assert isinstance(found, Steady)
    assert found.mhz == 1365.0
    assert 1.5 <= found.after_s <= 3.5


def test_a_clock_that_still_changes_or_is_unknown_has_no_steady_state() -> None:
    falling = [(float(at), 2000.0 - 100 * at) for at in range(12)]
    assert "still changed by more than 2% at the end" in str(find_steady(falling))
    assert find_steady([(float(at), None) for at in range(12)]) == (
        "0 samples of the clock, at least 8 are needed"
    )


@given(st.lists(st.floats(300, 3000), min_size=burner.FEWEST_SAMPLES, max_size=40))
def test_the_medians_around_all_samples_from_the_steady_time_on_are_near_the_steady_clock(
    clocks: list[float],
) -> None:
    # Two seconds apart, so that the median around a sample is its own clock.
    samples = [(2.0 * at, mhz) for at, mhz in enumerate(clocks)]
    found = find_steady(samples)
    if isinstance(found, Steady):
        later = [mhz for at, mhz in samples if at >= found.after_s]
        assert all(abs(mhz - found.mhz) <= burner.STEADY * found.mhz for mhz in later)
        before = [mhz for at, mhz in samples if at < found.after_s]
        assert not before or abs(before[-1] - found.mhz) > burner.STEADY * found.mhz
