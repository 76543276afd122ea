"""Mistakes that are easy to make, run beside what is right."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.results import Column
from workloads.study import Study
from workloads.workload import Case, whole, workload

if TYPE_CHECKING:
    from workloads.place import Place

TIMINGS, QUICK_TIMINGS = 21, 9
NAIVE = "time.time(), as it returns"


@workload(
    group="pitfalls",
    title="timing a GPU without synchronizing",
    about="The same matrix product timed properly, and as many scripts do it, with time.time() "
    "around one call. A GPU call returns when it is queued, not when it is done; between them, "
    "time.time() with a synchronize, and a pair of CUDA events.",
    look_for="The naive figure is the time to launch. The rate it implies can lie above what the "
    "hardware can do at all, which is how to tell; a warning says so. One synchronized call counts "
    "launching and waiting in, an event pair the gap between its marks; many calls in a block "
    "spread both. On the CPU a call that has returned is done, so the figures agree.",
)
def naive_timing(
    on: Place,
    n: Annotated[int, whole(1, 32_768, "rows and columns")] = 2000,
) -> Case:
    import torch

    from workloads import flop
    from workloads.place import precision

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
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        timed()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3

    def study(found: Study) -> None:
        clocks: dict[str, Callable[[], float]] = {
            NAIVE: lambda: by_time(lambda: None),
            "time.time(), synchronized": lambda: by_time(on.synchronize),
        }
        if on.type == "cuda":
            clocks["a pair of events"] = by_events
        timings = QUICK_TIMINGS if found.quick else TIMINGS
        times = _medians(clocks, timings)
        on.synchronize()
        _side_by_side(found, {**times, "blocks of calls": found.median_s}, operations)
        if on.type != "cuda":
            found.say("a pair of events: n/a, they are timed on CUDA devices")
        naive = times[NAIVE]
        about = f"median of {timings} with time.time(), not synchronized"
        if naive <= 0:
            found.absent("naive_s", "time.time() did not advance", "s", about)
            return
        found.figure("naive_s", naive, "s", about)
        found.figure("naive_flop_per_s", operations / naive, "FLOP/s", "the rate that it implies")
        found.figure("too_fast", found.median_s / naive, "x", "right time over naive time")

    used = precision(on, "float32", torch.backends.cuda.matmul.allow_tf32)
    return Case(timed, flop=operations, precision=used, study=study)


def _medians(clocks: dict[str, Callable[[], float]], times: int) -> dict[str, float]:
    """Seconds by each clock, read in turns so that a drift of the machine falls on all alike."""
    rounds = [[clock() for clock in clocks.values()] for _ in range(times)]
    medians = map(statistics.median, zip(*rounds, strict=True))
    return dict(zip(clocks, medians, strict=True))


def _side_by_side(found: Study, times: dict[str, float], operations: int) -> None:
    """The clocks with the rate that each implies, and what share of the limit that would be."""
    found.table(
        "clocks", "one product by each clock", Column("clock"), Column("time", "s"),
        Column("rate", "FLOP/s"), Column("of limit", "%"),
    )  # fmt: skip
    if found.limit is None:
        reason = "no limit is known yet: a ceiling is measured at the end of a run that has none"
        found.unavailable["tables.clocks.of limit"] = reason
    for name, seconds in times.items():
        # time.time() may not have advanced.
        rate = operations / seconds if seconds > 0 else None
        share = None if found.limit is None or rate is None else 100 * rate / found.limit.value
        found.row("clocks", name, seconds, rate, share)
