"""Warm and cold caches: what is flushed, what the result says, why there may be no cold time."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import column, ok, ran
from workloads.catalog.shared import caches
from workloads.catalog.shared.models import tensor_bytes
from workloads.declare.place import Place
from workloads.measure import environment
from workloads.measure.clocks import Flushed, HostClock
from workloads.protocol.results import Setting

MIB = 2**20
WORKLOADS: dict[str, dict[str, Setting]] = {
    "matmul": {"n": 64},
    "decode_gemm": {"n": 128},
    "attention": {"batch": 1, "heads": 2, "length": 32, "width": 16},
    "reductions": {"rows": 64, "columns": 64},
    "device_copy": {"mib": 1},
}


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "last_cache", lambda _device: MIB)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("cache", [caches.WARM, caches.COLD])
def test_a_result_says_which_cache_it_found_and_compares_both(workload: str, cache: str) -> None:
    result = ok(workload, **WORKLOADS[workload], cache=cache)
    assert result.parameters["cache"] == cache
    assert column(result, "caches", "variant") == [caches.WARM, caches.COLD]
    known = result.figures["cold_over_warm"].value is not None
    assert known == (column(result, "caches", "verdict")[1] != "unclear")
    others = [table.title for table in result.tables if table.name in ("operations", "kernels")]
    assert all(f"{cache} cache" in title for title in others)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_cold_call_does_what_a_warm_one_does(workload: str) -> None:
    cold, warm = (ok(workload, **WORKLOADS[workload], cache=cache) for cache in ("cold", "warm"))
    assert cold.check == warm.check
    assert cold.time is not None
    assert warm.time is not None
    for result in (cold, warm):
        assert result.rates.byte_per_s or result.rates.flop_per_s


def test_a_flush_overwrites_twice_the_cache_before_each_call() -> None:
    place = Place("cpu")
    assert caches.flush_bytes(place) == 2 * MIB
    assert caches.flush_bytes(place, caches.WARM) == 0
    made: list[object] = []
    assert tensor_bytes(lambda: made.append(caches.cache_setter("cold", place))) == 2 * MIB
    seen: list[int] = []
    call = caches.cache_setter("cold", place)(lambda: seen.append(len(seen)))
    assert isinstance(call, Flushed)
    HostClock().block(call, 3)
    assert seen == [0, 1, 2]
    buffer = call.flush()
    assert isinstance(buffer, torch.Tensor)
    assert buffer.unique().tolist() == [4]


def test_a_warm_call_is_the_call_itself() -> None:
    def call() -> None:
        """Do nothing."""

    assert caches.cache_setter("warm", Place("cpu"))(call) is call


def test_a_cache_of_unknown_size_gives_no_cold_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "last_cache", lambda _device: None)
    result = ran("matmul", n=64, cache="cold")
    assert result.status == "skipped"
    assert "the size of this device's last cache is unknown; set cache=warm" in (
        result.reason or ""
    )
    warm = ok("matmul", n=64)
    assert [table.name for table in warm.tables] == []
    assert any(line.startswith("no cold time: cache=cold: the size") for line in warm.log)


def test_without_room_for_the_flush_the_warm_time_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Place, "free_memory", lambda _place: MIB)
    result = ok("matmul", n=64)
    assert any("the data that flushes the cache needs" in line for line in result.log)
    cold = ran("matmul", n=64, cache="cold")
    assert cold.status == "skipped"
    assert "are free on cpu" in (cold.reason or "")
