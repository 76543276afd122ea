"""Copies by size and kind of host memory, and within the device's own memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.measure import curves
from workloads.protocol.results import Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

SMALLEST = 4096
COPIED = (128, 1024)
"""MiB of a tensor on the CPU and on a GPU, where they shall be well beyond the cache."""
COPIED_DTYPES = ("float32", "float64", "bfloat16", "float16")
WAYS_AT_MOST = 16 * 2**20
"""Bytes: the ways to copy are compared at a size at which all of them are quick."""


@workload(
    group="transfer",
    title="copies by size",
    about="Copies of 4 KiB and more between the host and the device, from pinned and from pageable "
    "memory, each way. On the CPU, its twin: copies within host memory, bytes read and written "
    "both counted.",
    look_for="Small copies pay a fixed latency, large ones run at the link's rate: the curve bends "
    "at the size where both take equally long. Pinned memory is read by the device itself; "
    "pageable memory goes through a staging buffer that the CPU fills. Pinning costs more than one "
    "copy gains: pin_memory().to() in the loop is often slower than plain .to(). A non_blocking "
    "copy to pinned memory may not have arrived when the call returns: synchronize before the data "
    "is read. On the CPU the steps of the curve are the caches.",
)
def copy_sizes(
    on: Place,
    largest_mib: Annotated[int, whole(1, 16_384, "the largest copy, MiB")] = 64,
) -> Case:
    import torch

    from workloads.declare.place import pinned_bytes

    size = largest_mib * 2**20
    # The two that are copied, and what the ways make beside them: on the host two, both pinned.
    beside = min(size, WAYS_AT_MOST)
    on_device = 2 * (size + beside) if on.type == "cpu" else size + beside
    pinned = pinned_bytes(size) + 2 * pinned_bytes(beside) if on.type == "cuda" else 0
    on.require(on_device, f"copies of {largest_mib} MiB", host=size + pinned)
    pageable = on.host_randn(size // 4)
    host = pageable.pin_memory() if on.type == "cuda" else pageable
    there = torch.empty_like(pageable, device=on.device)

    def timed() -> torch.Tensor:
        return there.copy_(host, non_blocking=True)

    # A copy within host memory reads and writes there; one over the link crosses it once.
    crossings = 2 if on.type == "cpu" else 1

    def study(found: Study) -> None:
        pairs = {"copy": (pageable, there)}
        if on.type != "cpu":
            pairs = {
                "pageable to device": (pageable, there),
                "device to pageable": (there, pageable),
            }
        if on.type == "cuda":
            pairs = {"pinned to device": (host, there), "device to pinned": (there, host)} | pairs
        _rate_curve(found, size, pairs, crossings)
        _latency(found, pairs)
        _ways(found, on, pageable[: WAYS_AT_MOST // 4])

    return Case(
        timed,
        clock="wall",
        byte=crossings * size,
        byte_limit="memory" if on.type == "cpu" else "pcie",
        study=study,
    )


def _copy(source: torch.Tensor, target: torch.Tensor, size: int) -> Callable[[], object]:
    part, into = source[: size // 4], target[: size // 4]
    return lambda: into.copy_(part, non_blocking=True)


def _rate_curve(
    found: Study, size: int, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]], crossings: int
) -> None:
    found.chart("rates", "rate over size", "byte", *((name, "byte/s") for name in pairs))
    rates: dict[str, list[float]] = {name: [] for name in pairs}
    sizes = curves.doublings(SMALLEST, size, 4)
    for each in sizes:
        for name, (source, target) in pairs.items():
            seconds = found.time(_copy(source, target, each))
            rates[name].append(crossings * each / seconds)
        found.point("rates", float(each), *(rates[name][-1] for name in pairs))
    for name in pairs:
        found.mark("rates", f"{name}: {_bend(sizes, rates[name])}")


def _bend(sizes: list[int], rates: list[float]) -> str:
    """Where the curve has reached its top, and whether it stays there."""
    best = max(rates)
    if rates[-1] >= curves.NEAR_THE_TOP * best:
        return f"within 20 % of its best from {curves.knee(sizes, rates) // 1024} KiB on"
    top = sizes[rates.index(best)] // 1024
    return f"best at {top} KiB, {rates[-1] / best:.0%} of that at {sizes[-1] // 1024} KiB"


def _latency(found: Study, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
    for name, (source, target) in pairs.items():
        part, into = source[: SMALLEST // 4], target[: SMALLEST // 4]
        seconds = found.time(partial(into.copy_, part))
        about = "of a 4 KiB copy that is waited for"
        found.figure(f"latency {name}".replace(" ", "_"), seconds, "s", about)


def _ways(found: Study, on: Place, pageable: torch.Tensor) -> None:
    import torch

    title = f"ways to copy {pageable.numel() * 4 // 2**20 or 1} MiB into new memory"
    each = (pageable.numel() * 4, "byte/s")
    if on.type != "cuda":
        found.absent("pinned", "pinned memory is for copies to and from a CUDA device", "byte/s")
    if on.type == "cpu":
        kept = torch.empty_like(pageable)
        ways: dict[str, Callable[[], object]] = {
            "clone(): new memory": pageable.clone,
            "copy_() into kept memory": lambda: kept.copy_(pageable),
        }
        found.variants(
            "ways", title.replace("into new memory", "within the host"), ways, per_call=each
        )
        return
    ways = {"pageable.to()": lambda: pageable.to(on.device)}
    if on.type == "cuda":
        pinned = pageable.pin_memory()
        ways |= {
            "pageable.to(non_blocking)": lambda: pageable.to(on.device, non_blocking=True),
            "pinned.to()": lambda: pinned.to(on.device),
            "pinned.to(non_blocking)": lambda: pinned.to(on.device, non_blocking=True),
            "pin_memory().to(non_blocking)": lambda: pageable.pin_memory().to(
                on.device, non_blocking=True
            ),
        }
    found.variants("ways", title, ways, per_call=each)


@workload(
    group="transfer",
    title="copies within the device's memory",
    about="Copies, fills and adds large tensors that stay on one device: each reads and writes "
    "memory and computes next to nothing, so its rate is the memory's.",
    look_for="The rate against the memory's bandwidth: this is what every pointwise operation can "
    "reach at best. Copy, scaled add (triad) and sum should lie close together; on the CPU stores "
    "may first read the line they overwrite, which is not counted. The type of the numbers should "
    "make no difference where the memory is what bounds it: on a CPU, 16-bit sums may be bound by "
    "converting them.",
)
def device_copy(
    on: Place,
    mib: Annotated[int, whole(1, 65_536, "size of one tensor, MiB", auto=by_device(COPIED))] = 0,
    dtype: Annotated[str, one_of(COPIED_DTYPES, "of its numbers")] = "float32",
) -> Case:
    import torch

    from workloads.declare.place import DTYPES, PARTIAL_SUMS

    sizes = on.sizes(mib=(mib, COPIED))
    mib = sizes["mib"]
    size = mib * 2**20
    numbers = size // DTYPES[dtype].itemsize
    # On the CPU numbers of other types are drawn in float32 and converted.
    drawn = 4 * numbers if on.type == "cpu" and dtype != "float32" else 0
    sums = PARTIAL_SUMS if on.type != "cpu" else 0
    what = f"three tensors of {mib} MiB and what one is drawn from"
    on.require(2 * size + max(size + sums, drawn), what)
    source, other = on.randn(numbers, dtype=dtype), on.randn(numbers, dtype=dtype)
    target = torch.empty_like(source)

    def timed() -> torch.Tensor:
        return target.copy_(source)

    def study(found: Study) -> None:
        operations: dict[str, tuple[int, Callable[[], object]]] = {
            "copy: t = a": (2, timed),
            "fill: t = 1": (1, lambda: target.fill_(1.0)),
            "triad: t = a + 3 b": (3, lambda: torch.add(source, other, alpha=3.0, out=target)),
            "read: sum(a)": (1, source.sum),
        }
        found.table(
            "operations", f"tensors of {mib} MiB", Column("operation"), Column("traffic", "byte"),
            Column("time", "s"), Column("rate", "byte/s"),
        )  # fmt: skip
        calls = {name: call for name, (_, call) in operations.items()}
        for variant in found.compare(calls):
            traffic = float(operations[variant.name][0] * size)
            found.row(
                "operations", variant.name, traffic, variant.median_s, traffic / variant.median_s
            )

    return Case(timed, byte=2 * size, byte_limit="memory", chosen=sizes, study=study)
