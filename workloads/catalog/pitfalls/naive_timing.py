"""Mistakes that are easy to make, run beside what is right."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Column

if TYPE_CHECKING:
    from workloads.declare.place import Place

TIMINGS, FEWER = 21, 5
LONG_S = 0.02
"""Of calls that take longer, fewer are timed."""
NAIVE, SYNCHRONIZED = "time.time()", "time.time(), synchronized"
EVENTS, BLOCKS = "CUDA events", "blocks of calls"


def _clocks(
    found: Study, seconds: dict[str, float | None], operations: int, precision: str
) -> None:
    """Each clock's time, the rate it implies, and that rate's share of what is possible."""
    found.table(
        "clocks", "one product by each clock", Column("clock"), Column("time", "s"),
        Column("implied rate", "FLOP/s"), Column("of the limit", "%"),
    )  # fmt: skip
    for name, taken in seconds.items():
        rate = operations / taken if taken else None
        limit = found.limit(precision, rate) if rate else None
        found.row("clocks", name, taken, rate, 100 * limit.fraction if limit else None)
    if found.limit(precision, 1.0) is None:
        found.unavailable["tables.clocks.of the limit"] = (
            "no limit is known yet: a ceiling is measured once the run is done"
        )


@workload(
    group="pitfalls",
    title="timing a GPU without synchronizing",
    about="The same matrix product by several clocks: as many scripts do it, with time.time() "
    "around one call; the same with the device synchronized before and after; by the GPU's own "
    "events; and in blocks, as on top. A GPU call returns when it is queued, not when it is done.",
    look_for="The naive figure is the time to launch. The rate it implies can lie above what the "
    "hardware can do at all, which is how to tell; a warning says so. Synchronizing adds its own "
    "time to that of a single call: blocks of calls share it. On the CPU a call that has returned "
    "is done, so the figures agree.",
)
def naive_timing(
    on: Place,
    n: Annotated[int, whole(1, 32_768, "rows and columns")] = 2000,
) -> Case:
    import torch

    from workloads.catalog.shared.stopwatch import Stopwatch
    from workloads.declare import flop
    from workloads.declare.place import precision

    on.require(3 * n * n * 4, f"three {n} x {n} matrices of float32")
    a, b = on.randn(n, n), on.randn(n, n)

    def timed(a: torch.Tensor = a, b: torch.Tensor = b) -> torch.Tensor:
        return a @ b

    meta = torch.empty(n, n, device="meta")
    operations = flop.count(lambda: timed(meta, meta))

    def by_time(wait: Callable[[], None]) -> float:
        on.synchronize()
        start = time.time()
        timed()
        wait()
        return time.time() - start

    def by_events() -> float:
        watch = Stopwatch(on)
        start = watch.now()
        timed()
        end = watch.now()
        watch.synchronize()
        return watch.seconds(start, end)

    def study(found: Study) -> None:
        count = TIMINGS if found.median_s < LONG_S else FEWER

        def median(once: Callable[[], float]) -> float:
            return statistics.median(once() for _ in range(count))

        with found.watched():
            naive = median(lambda: by_time(lambda: None))
            on.synchronize()
            seconds: dict[str, float | None] = {
                NAIVE: naive,
                SYNCHRONIZED: median(lambda: by_time(on.synchronize)),
                EVENTS: median(by_events) if on.type == "cuda" else None,
                BLOCKS: found.median_s,
            }
        _clocks(found, seconds, operations, used)
        if on.type != "cuda":
            found.unavailable[f"tables.clocks.{EVENTS}"] = f"{on.type} has no events with a time"
        about = f"median of {count} with time.time(), not synchronized"
        if naive <= 0:
            found.absent("naive_s", "time.time() did not advance", "s", about)
            return
        found.figure("naive_s", naive, "s", about)
        found.figure("naive_flop_per_s", operations / naive, "FLOP/s", "the rate that it implies")
        found.figure("too_fast", found.median_s / naive, "x", "right time over naive time")

    used = precision(on, "float32", torch.backends.cuda.matmul.allow_tf32)
    return Case(timed, flop=operations, precision=used, study=study)
