"""The speed of copies: by size and kind of memory, and during the device's computations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared.caches import (
    WARM,
    CacheState,
    cache_setter,
    compare_caches,
    flush_bytes,
)
from workloads.declare.study import Study
from workloads.declare.tools import Call
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.measure import estimates
from workloads.protocol.results import DataColumn

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

SMALLEST = 4096
COPIED = (128, 1024)
"""Sizes in MiB of a tensor on the CPU and on a GPU, well beyond the cache."""
COPIED_DTYPES = ("float32", "float64", "bfloat16", "float16")
WAYS_AT_MOST = 16 * 2**20
"""Bytes: the largest size at which the ways to copy are compared; all are quick there."""


@workload(
    group="health",
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
    from workloads.scripts.copy_sizes import copy

    size = largest_mib * 2**20
    # The two that are copied, and what the ways make beside them: on the host two, both pinned.
    beside = min(size, WAYS_AT_MOST)
    on_device = 2 * (size + beside) if on.type == "cpu" else size + beside
    pinned = pinned_bytes(size) + 2 * pinned_bytes(beside) if on.type == "cuda" else 0
    on.require(on_device, f"copies of {largest_mib} MiB", host=size + pinned)
    pageable = on.host_randn(size // 4)
    host = pageable.pin_memory() if on.type == "cuda" else pageable
    there = torch.empty_like(pageable, device=on.device)

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
        partial(copy, there, host),
        clock="wall",
        byte=crossings * size,
        byte_limit="memory" if on.type == "cpu" else "pcie",
        study=study,
    )


def _copy(source: torch.Tensor, target: torch.Tensor, size: int) -> Callable[[], object]:
    from workloads.scripts.copy_sizes import copy

    return partial(copy, target[: size // 4], source[: size // 4])


def _rate_curve(
    found: Study, size: int, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]], crossings: int
) -> None:
    found.chart("rates", "rate over size", "byte", *((name, "byte/s") for name in pairs))
    rates: dict[str, list[float]] = {name: [] for name in pairs}
    sizes = estimates.doublings(SMALLEST, size, 4)
    for each in sizes:
        for name, (source, target) in pairs.items():
            seconds = found.time(_copy(source, target, each))
            rates[name].append(crossings * each / seconds)
        found.point("rates", float(each), *(rates[name][-1] for name in pairs))
    for name in pairs:
        found.mark("rates", f"{name}: {_bend(sizes, rates[name])}")


def _bend(sizes: list[int], rates: list[float]) -> str:
    """Describe where the curve reaches its top, and whether it stays there."""
    best = max(rates)
    if rates[-1] >= estimates.NEAR_THE_TOP * best:
        return f"within 20 % of its best from {estimates.knee(sizes, rates) // 1024} KiB on"
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
    group="health",
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
    cache: CacheState = WARM,
) -> Case:
    import torch

    from workloads.declare.place import DTYPES, PARTIAL_SUMS
    from workloads.scripts.device_copy import copy, triad

    sizes = on.sizes(mib=(mib, COPIED))
    mib = sizes["mib"]
    size = mib * 2**20
    numbers = size // DTYPES[dtype].itemsize
    # On the CPU numbers of other types are drawn in float32 and converted.
    drawn = 4 * numbers if on.type == "cpu" and dtype != "float32" else 0
    sums = PARTIAL_SUMS if on.type != "cpu" else 0
    what = f"three tensors of {mib} MiB and what one is drawn from"
    on.require(2 * size + max(size + sums, drawn) + flush_bytes(on, cache), what)
    source, other = on.randn(numbers, dtype=dtype), on.randn(numbers, dtype=dtype)
    target = torch.empty_like(source)
    under_cache = cache_setter(cache, on)

    timed = partial(copy, target, source)

    def study(found: Study) -> None:
        operations: dict[str, tuple[int, Callable[[], object]]] = {
            "copy: t = a": (2, timed),
            "fill: t = 1": (1, lambda: target.fill_(1.0)),
            "triad: t = a + 3 b": (3, partial(triad, target, source, other)),
            "read: sum(a)": (1, source.sum),
        }
        found.table(
            "operations", f"tensors of {mib} MiB, {cache} cache", DataColumn("operation"),
            DataColumn("traffic", "byte"),
            DataColumn("time", "s"), DataColumn("rate", "byte/s"),
        )  # fmt: skip
        calls = {name: under_cache(call) for name, (_, call) in operations.items()}
        for variant in found.compare(calls):
            traffic = float(operations[variant.name][0] * size)
            found.row(
                "operations", variant.name, traffic, variant.median_s, traffic / variant.median_s
            )
        compare_caches(found, on, timed, (2.0 * size, "byte/s"), 0)

    return Case(under_cache(timed), byte=2 * size, byte_limit="memory", chosen=sizes, study=study)


def hidden_share(copy_s: float, compute_s: float, both_s: float) -> float:
    """Return the hidden share of the time: 100 % if both take no longer than the longer one alone.

    Args:
        copy_s: all copies alone, seconds.
        compute_s: all the work alone, seconds.
        both_s: both together, seconds.

    Returns:
        Percent of the shorter of the two; negative where running both at once costs time.
    """
    return 100 * (copy_s + compute_s - both_s) / min(copy_s, compute_s)


@workload(
    group="training",
    title="copying while computing, on two streams",
    about="Works through chunks of data that lie in pinned host memory: while the device "
    "multiplies one chunk, a second stream copies the next one to it, into the other of two "
    "buffers.",
    look_for="With two streams the whole should take as long as the longer of copying and "
    "computing; on one stream it takes their sum. It needs pinned memory and non_blocking: a copy "
    "from pageable memory makes the host wait. Events order the streams: a product waits for its "
    "chunk, a copy waits until its buffer is no longer read.",
    devices=("cuda",),
)
def overlap(
    on: Place,
    chunk_mib: Annotated[int, whole(1, 4096, "size of a chunk, MiB")] = 32,
    chunks: Annotated[int, whole(2, 256, "chunks in one call")] = 8,
    width: Annotated[int, whole(16, 16_384, "columns of a chunk and of the weight")] = 4096,
) -> Case:
    import torch

    from workloads.declare.place import pinned_bytes
    from workloads.scripts.overlap import multiply_chunks

    rows = max(1, chunk_mib * 2**18 // width)
    size = 4 * rows * width
    in_host = chunks * pinned_bytes(size)
    on.require(3 * size + 4 * width * width, "two chunks and a product", host=in_host)
    host = [on.host_randn(rows, width, pinned=True) for _ in range(chunks)]
    buffers = [torch.empty(rows, width, device=on.device) for _ in range(2)]
    weight = on.randn(width, width)
    product = torch.empty(rows, width, device=on.device)
    copying = torch.cuda.Stream(on.device)

    timed = partial(multiply_chunks, host, buffers, weight, product, copying)

    def study(found: Study) -> None:
        in_turn = _in_turn(host, buffers, weight, product)
        _parts(found, f"{chunks} chunks of {chunk_mib} MiB", in_turn | {"two streams": timed})

    return Case(timed, clock="wall", byte=chunks * size, byte_limit="pcie", study=study)


def _in_turn(
    host: list[torch.Tensor],
    buffers: list[torch.Tensor],
    weight: torch.Tensor,
    product: torch.Tensor,
) -> dict[str, Call]:
    """Return calls for the same work on one stream, and for its two parts alone."""
    import torch

    def copies() -> None:
        for index, chunk in enumerate(host):
            buffers[index % 2].copy_(chunk, non_blocking=True)

    def products() -> None:
        for index in range(len(host)):
            torch.matmul(buffers[index % 2], weight, out=product)

    def one_stream() -> None:
        for index, chunk in enumerate(host):
            buffer = buffers[index % 2]
            buffer.copy_(chunk, non_blocking=True)
            torch.matmul(buffer, weight, out=product)

    return {"one stream": one_stream, "copies alone": copies, "products alone": products}


def _parts(found: Study, title: str, calls: dict[str, Call]) -> None:
    found.table("parts", title, DataColumn("part"), DataColumn("time", "s"))
    seconds = {}
    for variant in found.compare(calls, "wall"):
        seconds[variant.name] = variant.median_s
        found.row("parts", variant.name, variant.median_s)
    copy_s, compute_s = seconds["copies alone"], seconds["products alone"]
    share = hidden_share(copy_s, compute_s, seconds["two streams"])
    about = "of the shorter of copying and computing; 100 % when it costs no time at all"
    found.figure("hidden", share, "%", about)
    speed_up = seconds["one stream"] / seconds["two streams"]
    found.figure("speed_up", speed_up, "x", "one stream over two")
    best = (copy_s + compute_s) / max(copy_s, compute_s)
    found.figure("best_speed_up", best, "x", "their sum over the longer of the two")
