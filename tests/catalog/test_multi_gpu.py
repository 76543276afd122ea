"""The multi-GPU workloads that need no ranks, as they run on the CPU."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import ran
from workloads.catalog.health import burn


def test_the_list_of_devices_has_the_cpu_and_says_why_there_is_no_gpu() -> None:
    result = ran("device_list")
    assert result.status == "ok"
    assert result.figures["gpus"].value == float(torch.cuda.device_count())
    assert result.tables[0].rows[-1][0] == "cpu"
    if not torch.cuda.device_count():
        assert result.log


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="there are two GPUs")
@pytest.mark.parametrize("name", ["peer_copies", "data_parallel"])
def test_what_needs_two_gpus_says_so(name: str) -> None:
    result = ran(name)
    assert result.status == "skipped"
    assert result.reason is not None
    assert result.reason.startswith("needs 2 GPUs: torch sees")


def test_a_burn_counts_flop_as_by_hand_and_finds_nothing_wrong() -> None:
    result = ran("burn", seconds=1, n=128)
    assert (result.status, result.reason) == ("ok", None)
    assert result.time is not None
    assert result.rates.flop_per_s == pytest.approx(2 * 128**3 / result.time.median_s)
    assert result.figures["wrong_entries"].value == 0.0
    assert result.tables[0].rows[0][0] == "cpu"
    assert result.charts[0].places[-1] >= 1.0
    timed, loaded = result.spans
    assert timed.end <= loaded.start
    assert loaded.end - loaded.start >= 1.0
    assert loaded.devices == ("cpu",)


def test_the_first_and_the_last_second_are_held_against_each_other() -> None:
    rates = [(0.5, [10.0]), (1.0, [20.0]), (1.5, [1.0]), (2.0, [4.0]), (2.5, [6.0])]
    assert burn.edges(rates, 0) == (15.0, 5.0)
    assert burn.edges([(3.0, [7.0])], 0) == (7.0, 7.0)
