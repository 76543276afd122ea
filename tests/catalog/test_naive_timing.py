"""The same product by several clocks: what each says, and what rate that implies."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import column, ok, ran_under
from workloads.limits import limit_lookup
from workloads.limits.ceilings import Ceilings
from workloads.measure.timing import Control
from workloads.protocol.results import Ceiling


def test_a_product_is_timed_by_each_clock_there_is_with_the_rate_that_implies() -> None:
    result = ok("naive_timing", n=64)
    clocks = column(result, "clocks", "clock")
    assert clocks == ["time.time()", "time.time(), synchronized", "CUDA events", "blocks of calls"]
    times = column(result, "clocks", "time")
    rates = column(result, "clocks", "implied rate")
    assert (times[2], rates[2]) == (None, None)
    assert result.unavailable["tables.clocks.CUDA events"] == "cpu has no events with a time"
    assert result.time is not None
    assert times[3] == result.time.median_s
    for seconds, rate in zip(times, rates, strict=True):
        if isinstance(seconds, float) and seconds > 0:
            assert rate == pytest.approx(2 * 64**3 / seconds)
    assert set(column(result, "clocks", "of the limit")) == {None}
    # On the CPU both clocks agree but for noise.
    assert result.figures["too_fast"].value is None
    assert "is done when it returns" in result.unavailable["figures.too_fast"]
    assert "no limit was known during this run" in result.unavailable["tables.clocks.of the limit"]


def test_an_implied_rate_is_laid_beside_the_limit_where_one_is_known() -> None:
    ceilings = Ceilings()
    under = limit_lookup.conditions(torch.device("cpu"))
    ceilings.learn([Ceiling("float32", 1e15, "told", 1.0, under)])
    result = ran_under(Control(), "naive_timing", {"n": 64}, ceilings=ceilings)
    rates = column(result, "clocks", "implied rate")
    shares = column(result, "clocks", "of the limit")
    assert isinstance(rates[3], float)
    assert shares[3] == pytest.approx(100 * rates[3] / 1e15)
