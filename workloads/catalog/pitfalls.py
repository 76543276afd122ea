"""Mistakes that are easy to make, run beside what is right."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Annotated

from workloads.study import Study
from workloads.workload import Case, whole, workload

if TYPE_CHECKING:
    from workloads.place import Place

NAIVE_TIMINGS = 21


@workload(
    group="pitfalls",
    title="timing a GPU without synchronizing",
    about="The same matrix product timed twice: properly, and as many scripts do it, with "
    "time.time() around one call. A GPU call returns when it is queued, not when it is done.",
    look_for="The naive figure is the time to launch. The rate it implies can lie above what the "
    "hardware can do at all, which is how to tell; a warning says so. On the CPU a call that has "
    "returned is done, so both figures agree.",
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

    def synchronize() -> None:
        if on.type == "cuda":
            torch.cuda.synchronize(on.device)
        elif on.type == "mps":
            torch.mps.synchronize()

    def naively() -> float:
        synchronize()
        start = time.time()
        timed()
        return time.time() - start

    def study(found: Study) -> None:
        naive = statistics.median(naively() for _ in range(NAIVE_TIMINGS))
        synchronize()
        about = f"median of {NAIVE_TIMINGS} with time.time(), not synchronized"
        if naive <= 0:
            found.absent("naive_s", "time.time() did not advance", "s", about)
            return
        found.figure("naive_s", naive, "s", about)
        found.figure("naive_flop_per_s", operations / naive, "FLOP/s", "the rate that it implies")
        found.figure("too_fast", found.median_s / naive, "x", "right time over naive time")

    used = precision(on, "float32", torch.backends.cuda.matmul.allow_tf32)
    return Case(timed, flop=operations, precision=used, study=study)
