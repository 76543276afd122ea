"""Square matrix products: one size, and sizes from small to large."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared.caches import (
    WARM,
    CacheState,
    cache_setter,
    compare_caches,
    flush_bytes,
)
from workloads.catalog.shared.products import (
    CHECKED_COLUMNS,
    CHECKED_ROWS,
    Shape,
    bound_by,
    check_product,
    launch_seconds,
)
from workloads.declare.study import Study
from workloads.declare.tools import ClockName
from workloads.declare.workload import Case, one_of, whole, workload
from workloads.measure import estimates
from workloads.protocol.results import Check

if TYPE_CHECKING:
    from workloads.declare.place import Place


@workload(
    group="health",
    title="square matrix product",
    about="Multiplies two n x n matrices. On a GPU cuBLAS does it, on the CPU MKL or a similar "
    "library; the numbers are normally distributed.",
    look_for="The share of the limit: large products come near it, small ones wait for memory or "
    "for their launch. For the tensor cores set dtype=bfloat16 or float16, or for float32 switch "
    "cuda.matmul.fp32_precision to tf32. A cold cache slows small products; large ones read each "
    "number many times and hardly notice.",
    compared=True,
)
def matmul(
    on: Place,
    n: Annotated[int, whole(1, 65_536, "rows and columns")] = 2048,
    dtype: Annotated[
        str, one_of(("float32", "bfloat16", "float16", "float64"), "element type")
    ] = "float32",
    cache: CacheState = WARM,
) -> Case:
    import torch

    from workloads.declare.place import DTYPES, count_flop, precision
    from workloads.scripts.matmul import multiply

    made_as = DTYPES[dtype].itemsize if on.type != "cpu" else max(4, DTYPES[dtype].itemsize)
    checked = min(n, CHECKED_ROWS) * min(n, CHECKED_COLUMNS)
    needed = (3 * n * n + checked) * made_as + flush_bytes(on, cache)
    on.require(needed, f"three {n} x {n} matrices of {dtype}")
    a, b = on.randn(n, n, dtype=dtype), on.randn(n, n, dtype=dtype)
    timed = functools.partial(multiply, a, b)
    under_cache = cache_setter(cache, on)

    used = precision(on, dtype, "matmul")

    def check() -> Check:
        return check_product(a, b, timed(), used)

    meta = torch.empty(n, n, device="meta")
    operations = count_flop(lambda: multiply(meta, meta))

    def study(study: Study) -> None:
        compare_caches(study, on, timed, (operations, "FLOP/s"), n * n * a.element_size())

    return Case(
        under_cache(timed),
        flop=operations,
        byte=3 * n * n * a.element_size(),
        precision=used,
        check=check,
        study=study,
    )


ONE_NUMBER = 2 * 512
"""Bytes of two tensors of one number each in a GPU's allocator, which rounds up to 512
(torch: ``kMinBlockSize``)."""
CPU_LONGEST_S = 0.25
"""The CPU's curve ends before the size whose product would take longer than this."""


@workload(
    group="health",
    title="matrix products over sizes, beside the CPU",
    about="Square float32 products of growing size. A GPU is compared with the CPU, also with the "
    "copies counted: both factors from the host, the product back.",
    look_for="Where the GPU overtakes the CPU, with and without the copies: below that size the "
    "CPU is faster. The knee is the smallest n from which on the rate is within 20% of its best. "
    "Where the launch takes at least half of the time, the result says so: a GPU with a higher "
    "rate would take about as long there. On the CPU alone: the knee of its own curve.",
)
def matmul_sweep(
    on: Place,
    largest: Annotated[int, whole(32, 32_768, "rows and columns of the largest")] = 2048,
    smallest: Annotated[int, whole(1, 32_768, "of the smallest; doubled from there")] = 32,
) -> Case:

    from workloads.declare.place import precision
    from workloads.scripts.matmul_sweep import multiply

    # Both timed factors, and the tensors of the curves' largest size: on the CPU two factors and
    # their product; on a GPU also copies of them, the factors' originals being on the host. Some
    # of the size before is held until the next begins.
    on_device, on_host = (5, 0) if on.type == "cpu" else (7, 4)
    matrix = 4 * largest**2
    purpose = f"matrices of {largest} x {largest}"
    on.require(on_device * matrix + ONE_NUMBER, purpose, host=on_host * matrix)
    a, b = on.randn(largest, largest), on.randn(largest, largest)
    timed = functools.partial(multiply, a, b)

    def study(study: Study) -> None:
        sizes = estimates.doublings(smallest, largest)
        _measure_sweep(study, on, sizes, used)

    used = precision(on, "float32", "matmul")
    square = Shape("", largest, largest, largest)
    return Case(
        timed, flop=square.flop, byte=square.byte, precision=used, byte_limit="memory", study=study
    )


def _measure_sweep(study: Study, on: Place, sizes: list[int], precision: str) -> None:
    beside = on.type != "cpu"
    # With the copies the host's time counts, so the curves beside that take it too.
    clock: ClockName | None = "wall" if beside else None
    name = {"cpu": "CPU", "cuda": "GPU", "mps": "GPU"}[on.type]
    names = [name, f"{name} with copies", "CPU"] if beside else [name]
    study.chart("rate", "rate over size", "n", *((line, "FLOP/s") for line in names))
    study.chart("time", "time over size", "n", *((line, "s") for line in names))
    times: dict[str, list[float]] = {line: [] for line in names}
    launch_s = launch_seconds(study, on, clock)
    for n in sizes:
        for line, call in _calls(on, n, names).items():
            before = times[line]
            if len(before) < sizes.index(n):
                continue  # it has ended
            if line == "CPU" and beside and _is_slow(call, before):
                continue
            known = n == sizes[-1] and not beside
            before.append(study.median_s if known else study.time(call, clock))
        latest = [times[line][-1] if len(times[line]) > sizes.index(n) else None for line in names]
        study.point("time", float(n), *latest)
        study.point("rate", float(n), *(None if s is None else 2 * n**3 / s for s in latest))
        study.check_rate(f"n={n}", 2 * n**3 / times[name][-1], precision)
    place = estimates.knee(sizes, [2 * n**3 / s for n, s in zip(sizes, times[name], strict=True)])
    study.mark("rate", f"the {name} is within 20% of its best rate from n={place} on")
    study.figure("knee", float(place), "", "rows: from there on within 20% of the best rate")
    _launch_bound(study, sizes, times[name], launch_s)
    if not beside:
        study.absent("overtakes", "CPU-only run")
        return
    if len(times["CPU"]) < len(sizes):
        ended = sizes[len(times["CPU"])]
        study.mark(
            "time",
            f"the CPU's curve ends before n={ended}: one product takes longer than "
            f"{CPU_LONGEST_S} s",
        )
    for line in names[:2]:
        figure = "overtakes" if line == name else "overtakes_with_copies"
        _overtakes(study, figure, line, estimates.crossing(sizes, times[line], times["CPU"]))


def _is_slow(call: Callable[[], object], before: Sequence[float]) -> bool:
    """Return whether a product on the CPU takes too long to be timed.

    Args:
        call: the product.
        before: times of the smaller ones, each half the size of the next.
    """
    # Twice the size is eight times the work. A size that other programs disturbed may have taken
    # far too long, so a call decides.
    return bool(before) and 8 * before[-1] > CPU_LONGEST_S and _time_call(call) > CPU_LONGEST_S


def _time_call(call: Callable[[], object]) -> float:
    """Return the seconds of one call on the CPU."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _launch_bound(study: Study, sizes: list[int], times: list[float], launch_s: float) -> None:
    """Mark the sizes whose time is launch time rather than the device's."""
    about = "rows: up to this size launch overhead is at least half of the time"
    # The intensity is irrelevant here: the question is whether a launch is most of the time.
    bound = [
        n for n, s in zip(sizes, times, strict=True) if bound_by(s, 1.0, 0.0, launch_s) == "launch"
    ]
    if not bound:
        reason = f"not even n={sizes[0]}"
        study.absent("launch_bound_up_to", reason, "", about)
        return
    study.mark("rate", f"bound by the launch up to n={bound[-1]}")
    study.figure("launch_bound_up_to", float(bound[-1]), "", about)


def _overtakes(study: Study, figure: str, line: str, at: estimates.Crossing | None) -> None:
    about = "rows: the smallest size measured from which on it is ahead of the CPU"
    if at is None:
        study.absent(figure, "the CPU was not measured", "", about)
        return
    study.mark("time", estimates.describe_crossing(f"the {line}", "the CPU", at))
    if at.before is None:
        study.absent(figure, f"not up to n={at.after}", "", about)
    else:
        study.figure(figure, float(at.before), "", about)


def _calls(on: Place, n: int, names: list[str]) -> dict[str, Callable[[], object]]:
    from workloads.scripts.matmul_sweep import multiply, multiply_with_copies

    x, y = on.host_randn(n, n), on.host_randn(n, n)
    on_host = functools.partial(multiply, x, y)
    if len(names) == 1:
        return {names[0]: on_host}
    a, b = x.to(on.device), y.to(on.device)
    return {
        names[0]: functools.partial(multiply, a, b),
        names[1]: functools.partial(multiply_with_copies, x, y, on.device),
        names[2]: on_host,
    }
