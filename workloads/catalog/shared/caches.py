"""The cache before a timed call: as the previous call left it (warm), or flushed (cold).

In a program, other work runs between two calls of an operation, so its data is seldom in the last
cache. nvbench overwrites a buffer of the L2 cache's size before each cold call
(github.com/NVIDIA/nvbench, ``nvbench/detail/l2flush.cuh``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.tools import Call
from workloads.declare.workload import Skip, one_of

if TYPE_CHECKING:
    from workloads.declare.place import Place

WARM, COLD = "warm", "cold"
SPAN = 2
"""Caches that a flush overwrites: of one, a part could stay (pseudo-random replacement)."""
SHORT_S = 20e-6
"""Seconds; of a shorter cold call, the time between its events is a considerable part."""

CacheState = Annotated[
    str, one_of((WARM, COLD), "last-level cache before each call; cold: flushed")
]


def flush_bytes(on: Place, cache: str = COLD) -> int:
    """Return the bytes that flush the device's last cache; zero for a warm one.

    Raises:
        Skip: the size of the cache is unknown.
    """
    from workloads.measure import environment

    if cache == WARM:
        return 0
    size = environment.last_cache(on.device)
    if size is None:
        raise Skip("cache=cold: the size of this device's last cache is unknown; set cache=warm")
    return SPAN * size


def cache_setter(cache: str, on: Place) -> Callable[[Call], Call]:
    """Return a function that makes a timed call find the cache warm or cold.

    Raises:
        Skip: the size of the cache is unknown.
    """
    import torch

    from workloads.measure.clocks import Flushed

    if cache == WARM:
        return lambda call: call
    # Written to and, on a CPU, read: large writes alone may bypass a CPU's caches.
    buffer = torch.zeros(flush_bytes(on) // 4, dtype=torch.int32, device=on.device)
    flush: Call = buffer.zero_ if on.type == "cuda" else lambda: buffer.add_(1)
    return lambda call: Flushed(call, flush)


def compare_caches(
    study: Study, on: Place, call: Call, per_call: tuple[float, str], per_call_bytes: int
) -> None:
    """Add a table of the call's time with a warm and a cold cache, or say why there is none.

    Args:
        study: the findings.
        on: the device.
        call: the call, without a flush.
        per_call: amount of work in one call, and the rate's unit: ``(n, "byte/s")``.
        per_call_bytes: bytes that the call itself makes, at most.
    """
    try:
        size = flush_bytes(on)
        on.require(size + per_call_bytes, "the data that flushes the cache")
    except Skip as skip:
        study.log_line(f"no cold time: {skip}")
        return
    calls = {WARM: call, COLD: cache_setter(COLD, on)(call)}
    title = f"warm or flushed last-level cache ({size // SPAN / 2**20:.3g} MiB)"
    _, cold = study.variants("caches", title, calls, per_call=per_call)
    about = "cold: the cache is flushed before each call; warm: one call follows another"
    study.factor("cold_over_warm", 1 / cold.ratio, cold, about)
    if on.type == "cuda" and cold.median_s < SHORT_S:
        study.log_line(
            "cold calls are timed one by one: so short, a few microseconds are not their own"
        )
