"""The profiler's table on a GPU, where kernels are seen and where they are not."""

from __future__ import annotations

import pytest

from tests.catalog.runs import column, numbers, ran
from workloads.protocol.results import RunResult

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def profiled() -> RunResult:
    result = ran("profiler", "cuda:0", steps=1, batch=8)
    assert (result.status, result.reason) == ("ok", None), result.trace
    return result


def test_operators_that_make_tensors_show_the_memory_they_took_of_the_gpu(
    profiled: RunResult,
) -> None:
    memory = dict(
        zip(
            column(profiled, "operators", "operator"),
            numbers(profiled, "operators", "self memory"),
            strict=True,
        )
    )
    taking = [name for name, taken in memory.items() if taken > 0]
    assert taking
    # Weights' gradients at the least: 3 x 3 kernels of 8, 16 and 32 channels.
    assert max(memory.values()) >= 4 * 9 * 16 * 32


def test_without_rows_of_kernels_the_reason_stands_in_place_of_their_time(
    profiled: RunResult,
) -> None:
    tables = [table.name for table in profiled.tables]
    if "kernels" in tables:
        assert isinstance(profiled.figures["device_time"].value, float)
    else:
        assert "CUPTI" in profiled.unavailable["figures.device_time"]
        assert any(line.startswith("by processor time instead") for line in profiled.log)
