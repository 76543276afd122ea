"""Measuring mistakes: a clock that does not wait, and expecting equal bits of two devices."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

TIMINGS, FEWER = 21, 5
LONG_S = 0.02
"""Longer calls than this are timed fewer times."""
NAIVE, SYNCHRONIZED = "time.time()", "time.time(), synchronized"
EVENTS, BLOCKS = "CUDA events", "blocks of calls"


def _clocks(
    study: Study, seconds: dict[str, float | None], operations: int, precision: str
) -> None:
    """Add each clock's time, the rate it implies, and that rate's share of the limit."""
    study.table(
        "clocks", "one product by each clock",
        "clock", ("time", "s"), ("implied rate", "FLOP/s"), ("of the limit", "%"),
    )  # fmt: skip
    for name, second in seconds.items():
        rate = operations / second if second else None
        limit = study.limit(precision, rate) if rate else None
        study.row("clocks", name, second, rate, 100 * limit.fraction if limit else None)
    if study.limit(precision, 1.0) is None:
        study.unavailable["tables.clocks.of the limit"] = (
            "no limit was known during this run: one is measured after it, for the next"
        )


@workload(
    group="first_steps",
    title="timing a GPU without synchronizing",
    about="The same matrix product by several clocks: as many scripts do it, with time.time() "
    "around one call; the same with the device synchronized before and after; by the GPU's own "
    "events; and in blocks, as on top. A GPU call returns when it is queued, not when it is done.",
    look_for="The naive figure is the time to launch. The rate it implies can lie above what the "
    "hardware can do at all, which is how to tell; a warning says so. Synchronizing adds its own "
    "time to that of a single call: blocks of calls share it. On the CPU a call that has returned "
    "is done, so the figures agree, but for noise.",
    question="time.time() around one product implies more FLOP/s than the GPU can reach. What was "
    "timed?",
    choices=(
        "the product, with its data in the cache",
        "the launch, not the product",
        "the copy of the result to the CPU",
    ),
    right_choice=2,
    answer="The launch. A call on a GPU returns once it is queued, so call "
    "torch.cuda.synchronize() before the clock is read, or use CUDA events. On the CPU a call "
    "that has returned is done, and a plain clock is right.",
)
def naive_timing(
    on: Place,
    n: Annotated[int, whole(1, 32_768, "rows and columns")] = 2000,
) -> Case:
    import torch

    from workloads.catalog.shared.models import Stopwatch
    from workloads.declare.place import count_flop, precision
    from workloads.scripts.naive_timing import multiply

    on.require(3 * n * n * 4, f"three {n} x {n} matrices of float32")
    a, b = on.randn(n, n), on.randn(n, n)

    timed = partial(multiply, a, b)
    meta = torch.empty(n, n, device="meta")
    operations = count_flop(lambda: multiply(meta, meta))

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

    def study(study: Study) -> None:
        count = TIMINGS if study.median_s < LONG_S else FEWER

        def median(once: Callable[[], float]) -> float:
            return statistics.median(once() for _ in range(count))

        with study.watched():
            naive = median(lambda: by_time(lambda: None))
            on.synchronize()
            seconds: dict[str, float | None] = {
                NAIVE: naive,
                SYNCHRONIZED: median(lambda: by_time(on.synchronize)),
                EVENTS: median(by_events) if on.type == "cuda" else None,
                BLOCKS: study.median_s,
            }
        _clocks(study, seconds, operations, used)
        if on.type != "cuda":
            study.unavailable[f"tables.clocks.{EVENTS}"] = f"{on.type} has no events with a time"
        about = f"median of {count} with time.time(), not synchronized"
        if naive <= 0:
            study.absent("naive_s", "time.time() did not advance", "s", about)
            return
        study.figure("naive_s", naive, "s", about)
        study.figure("naive_flop_per_s", operations / naive, "FLOP/s", "the rate that it implies")
        about = "naive timing, which does not synchronize, is too short by this factor"
        if on.type == "cpu":
            study.absent("too_fast", "a call on the CPU is done when it returns", "x", about)
            return
        study.figure("too_fast", study.median_s / naive, "x", about)

    used = precision(on, "float32", "matmul")
    return Case(timed, flop=operations, precision=used, study=study)


FLOAT32_ROUNDING, TF32_ROUNDING = 2.0**-24, 2.0**-11
"""Half a unit in the last place: the largest relative change by one rounding."""


def tolerance(inner: int, magnitude: float, tf32: bool) -> float:
    """Return how far a matrix product may be from the exact one by rounding alone.

    Each entry adds up ``inner`` products, and each addition rounds: in float32 the sum is off by at
    most sqrt(inner) roundings of ``magnitude``, except in cases so unlucky that random data does
    not contain them (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis,
    2019, theorem 3.1). TF32 also rounds both factors first.

    Args:
        inner: number of products in the sum of an entry.
        magnitude: the largest entry of ``|x| @ |y|``.
        tf32: the factors are rounded to TF32.
    """
    factors = 2 * TF32_ROUNDING if tf32 else 0.0
    return (math.sqrt(inner) * FLOAT32_ROUNDING + factors) * magnitude


@workload(
    group="first_steps",
    title="are the results of two devices the same?",
    about="The same product on the CPU and on the GPU, compared by torch.allclose. Without a GPU, "
    "the same products added up in another order, as a GPU does. Rounding depends on the order, so "
    "both results are right and neither is exact.",
    look_for="allclose with its defaults says no: for some data from 4 rows on, and from 32 on for "
    "nearly all. It allows each entry 1e-5 of its own size and 1e-8, and an entry close to zero is "
    "the sum of large numbers that cancel. The table of errors compares each result with float64: "
    "both are a little off. A tolerance that fits comes from how much was added up; it passes both "
    "and still notices a single product that is missing.",
    question="torch.allclose says that the results of the CPU and the GPU differ. Is the GPU "
    "wrong?",
    choices=(
        "yes: equal inputs have one result",
        "no, the CPU is: a GPU adds with more digits",
        "no: both round, each in its own order",
    ),
    right_choice=3,
    answer="Not for that reason. Sums in another order are rounded differently, and the default "
    "tolerance is too small for entries whose terms cancel. Compare both with float64, with a "
    "tolerance that grows with the number of terms: a missing product still fails.",
)
def comparing_results(
    on: Place,
    n: Annotated[int, whole(2, 16_384, "rows and columns")] = 1000,
) -> Case:
    import torch

    from workloads.declare.place import SEED, precision
    from workloads.scripts.comparing_results import agree

    on.require((56 if on.type == "cpu" else 12) * n * n, f"products of {n} x {n}", host=48 * n * n)
    x, y = on.host_randn(n, n), on.host_randn(n, n)
    on_cpu = x @ y
    here_x, here_y = x.to(on.device), y.to(on.device)
    if on.type == "cpu":
        order = torch.randperm(n, generator=torch.Generator().manual_seed(SEED))
        here_x, here_y = x[:, order], y[order]

    exact = x.double() @ y.double()
    tf32 = precision(on, "float32", "matmul") == "tf32"
    magnitude = float((x.abs() @ y.abs()).max())
    allowed = tolerance(n, magnitude, tf32)
    result = (here_x @ here_y).cpu()

    def error(tensor: torch.Tensor) -> float:
        return float((tensor - exact).abs().max())

    def check() -> Check:
        passed = error(result) <= allowed
        reference_name = "float64 on the CPU, by what rounding can explain"
        return Check(passed, error(result), allowed, reference_name)

    def study(study: Study) -> None:
        other = "another order" if on.type == "cpu" else str(on.device)
        study.table("errors", "the largest error of an entry", "result", "error")
        study.row("errors", "cpu, against float64", error(on_cpu))
        study.row("errors", f"{other}, against float64", error(result))
        study.row("errors", f"cpu against {other}", float((on_cpu - result).abs().max()))
        wrong = result - x[:, -1:] @ y[-1:]
        _verdicts(study, on_cpu, {other: result, f"{other}, one product missing": wrong}, allowed)
        differ = int((~torch.isclose(on_cpu, result)).sum())
        about = f"of {n * n}, that allclose compares"
        study.figure("entries_not_close", float(differ), "", about)
        study.figure("largest_entry", float(exact.abs().max()))
        about = "by rounding: sqrt(n) roundings of the largest entry of |x| @ |y|"
        about += ", and those of the factors to TF32" if tf32 else ""
        study.figure("tolerance_that_fits", allowed, "", about)

    timed = partial(agree, on_cpu, here_x, here_y)
    return Case(timed, clock="wall", check=check, study=study)


def _verdicts(
    study: Study, reference: torch.Tensor, results: dict[str, torch.Tensor], allowed: float
) -> None:
    """Add a table of the verdicts of each comparison method on each result."""
    import torch

    study.table("verdicts", "the CPU's result against others", "comparison", *results)
    # Both results may have this error.
    fits = 2 * allowed
    ways: dict[str, Callable[[torch.Tensor, torch.Tensor], bool]] = {
        "torch.equal(a, b)": torch.equal,
        "torch.allclose(a, b)": torch.allclose,
        f"torch.allclose(a, b, rtol=0, atol={fits:.2g})": lambda a, b: torch.allclose(
            a, b, rtol=0, atol=fits
        ),
    }
    for name, same in ways.items():
        study.row("verdicts", name, *(str(same(reference, result)) for result in results.values()))
