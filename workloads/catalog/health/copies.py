"""The speed of copies: to and from the device, within it, and between GPUs."""

from __future__ import annotations

import itertools
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
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.measure import estimates
from workloads.protocol.results import Check

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
    "memory, each way. On the CPU, copies within host memory, which count the bytes read and the "
    "bytes written.",
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
    # Both copied tensors, and those that the ways create beside them: on the host two, both pinned.
    beside = min(size, WAYS_AT_MOST)
    on_device = 2 * (size + beside) if on.type == "cpu" else size + beside
    pinned = pinned_bytes(size) + 2 * pinned_bytes(beside) if on.type == "cuda" else 0
    on.require(on_device, f"copies of {largest_mib} MiB", host=size + pinned)
    pageable = on.host_randn(size // 4)
    host = pageable.pin_memory() if on.type == "cuda" else pageable
    device_copy = torch.empty_like(pageable, device=on.device)

    # A copy within host memory reads and writes there; one over the link crosses it once.
    crossings = 2 if on.type == "cpu" else 1

    def study(study: Study) -> None:
        pairs = {"copy": (pageable, device_copy)}
        if on.type != "cpu":
            pairs = {
                "pageable to device": (pageable, device_copy),
                "device to pageable": (device_copy, pageable),
            }
        if on.type == "cuda":
            pairs = {
                "pinned to device": (host, device_copy),
                "device to pinned": (device_copy, host),
            } | pairs
        _rate_curve(study, size, pairs, crossings)
        _latency(study, pairs)
        _compare_ways(study, on, pageable[: WAYS_AT_MOST // 4])

    return Case(
        partial(copy, device_copy, host),
        clock="wall",
        byte=crossings * size,
        byte_limit="memory" if on.type == "cpu" else "pcie",
        study=study,
    )


def _copy(source: torch.Tensor, target: torch.Tensor, size: int) -> Callable[[], object]:
    from workloads.scripts.copy_sizes import copy

    return partial(copy, target[: size // 4], source[: size // 4])


def _rate_curve(
    study: Study, size: int, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]], crossings: int
) -> None:
    study.chart("rates", "rate over size", "byte", *((name, "byte/s") for name in pairs))
    rates: dict[str, list[float]] = {name: [] for name in pairs}
    sizes = estimates.doublings(SMALLEST, size, 4)
    for length in sizes:
        for name, (source, target) in pairs.items():
            seconds = study.time(_copy(source, target, length))
            rates[name].append(crossings * length / seconds)
        study.point("rates", float(length), *(rates[name][-1] for name in pairs))
    for name in pairs:
        study.mark("rates", f"{name}: {_describe_bend(sizes, rates[name])}")


def _describe_bend(sizes: list[int], rates: list[float]) -> str:
    """Describe where the curve reaches its top, and whether it stays there."""
    best = max(rates)
    if rates[-1] >= estimates.NEAR_THE_TOP * best:
        return f"within 20% of its best from {estimates.knee(sizes, rates) // 1024} KiB on"
    top = sizes[rates.index(best)] // 1024
    return f"best at {top} KiB, {rates[-1] / best:.0%} of that at {sizes[-1] // 1024} KiB"


def _latency(study: Study, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
    for name, (source, target) in pairs.items():
        part, into = source[: SMALLEST // 4], target[: SMALLEST // 4]
        seconds = study.time(partial(into.copy_, part))
        about = "of a 4 KiB copy that is waited for"
        study.figure(f"latency {name}".replace(" ", "_"), seconds, "s", about)


def _compare_ways(study: Study, on: Place, pageable: torch.Tensor) -> None:
    import torch

    title = f"ways to copy {pageable.numel() * 4 // 2**20 or 1} MiB into new memory"
    per_call = (pageable.numel() * 4, "byte/s")
    if on.type != "cuda":
        study.absent("pinned", "pinned memory is for copies to and from a CUDA device", "byte/s")
    if on.type == "cpu":
        target = torch.empty_like(pageable)
        ways: dict[str, Callable[[], object]] = {
            "clone(): new memory": pageable.clone,
            "copy_() into kept memory": lambda: target.copy_(pageable),
        }
        study.variants(
            "ways", title.replace("into new memory", "within the host"), ways, per_call=per_call
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
    study.variants("ways", title, ways, per_call=per_call)


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
    purpose = f"three tensors of {mib} MiB and what one is drawn from"
    on.require(2 * size + max(size + sums, drawn) + flush_bytes(on, cache), purpose)
    source, other = on.randn(numbers, dtype=dtype), on.randn(numbers, dtype=dtype)
    target = torch.empty_like(source)
    under_cache = cache_setter(cache, on)

    timed = partial(copy, target, source)

    def study(study: Study) -> None:
        operations: dict[str, tuple[int, Callable[[], object]]] = {
            "copy: t = a": (2, timed),
            "fill: t = 1": (1, lambda: target.fill_(1.0)),
            "triad: t = a + 3 b": (3, partial(triad, target, source, other)),
            "read: sum(a)": (1, source.sum),
        }
        study.table(
            "operations", f"tensors of {mib} MiB, {cache} cache",
            "operation", ("traffic", "byte"), ("time", "s"), ("rate", "byte/s"),
        )  # fmt: skip
        calls = {name: under_cache(call) for name, (_, call) in operations.items()}
        for variant in study.compare(calls):
            traffic = float(operations[variant.name][0] * size)
            study.row(
                "operations", variant.name, traffic, variant.median_s, traffic / variant.median_s
            )
        compare_caches(study, on, timed, (2.0 * size, "byte/s"), 0)

    return Case(under_cache(timed), byte=2 * size, byte_limit="memory", chosen=sizes, study=study)


COPIES = 8
"""Consecutive copies between two clock reads, so that the final wait counts for little."""


@workload(
    group="health",
    title="copies between GPUs",
    about="Copies a tensor from each GPU to each other one. Where the driver allows peer access, "
    "the copy goes straight over NVLink or PCIe; else it passes through host memory.",
    look_for="The matrix of rates: GPUs of one NVLink group, or under one PCIe switch, copy faster "
    "among themselves. A pair without peer access, or far below the others, slows every "
    "all-reduce that crosses it. The limit is all of a GPU's NVLinks together, of parts that "
    "always have them: behind an NVSwitch a pair can use them all; wired directly it has a third "
    "of them or fewer. A share far below that means that the copies go another way.",
    devices=("cuda",),
    needs=("2 GPUs",),
)
def peer_copies(
    on: Place, mib: Annotated[int, whole(1, 16_384, "size of the tensor, MiB")] = 256
) -> Case:
    import torch

    from workloads.declare.place import Place
    from workloads.scripts.peer_copies import copy

    size, count = mib * 2**20, torch.cuda.device_count()
    places = [Place(f"cuda:{index}") for index in range(count)]
    for place in places:
        place.require(2 * size, f"two tensors of {mib} MiB")
    sources = [place.randn(size // 4) for place in places]
    targets = [torch.empty_like(source) for source in sources]
    own = on.device.index or 0
    neighbour = (own + 1) % count

    timed = partial(copy, targets[neighbour], sources[own])

    def check() -> Check:
        timed()
        torch.cuda.synchronize(own)
        same = torch.equal(targets[neighbour].cpu(), sources[own].cpu())
        return Check(same, 0.0 if same else 1.0, 0.0, "the source, entry by entry")

    def study(study: Study) -> None:
        _matrix(study, sources, targets)

    pair = (f"cuda:{own}", f"cuda:{neighbour}")
    return Case(timed, byte=size, byte_limit="nvlink", devices=pair, check=check, study=study)


def _matrix(study: Study, sources: list[torch.Tensor], targets: list[torch.Tensor]) -> None:
    """Add a table of the rates between all GPUs, and log pairs without peer access."""
    import torch

    from workloads.scripts.peer_copies import copy

    count, size = len(sources), sources[0].nbytes

    def copies(source: int, target: int) -> None:
        for _ in range(COPIES):
            copy(targets[target], sources[source])
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)

    def rate(source: int, target: int) -> float | None:
        if source == target:
            return None
        measured = COPIES * size / study.time(partial(copies, source, target), "wall")
        study.check_rate(f"cuda:{source} to cuda:{target}", measured)
        return measured

    names = [(f"to cuda:{index}", "byte/s") for index in range(count)]
    study.table("matrix", "rate of copies", "from", *names)
    study.unavailable["tables.matrix"] = "a GPU is not timed against itself"
    for source in range(count):
        study.row("matrix", f"cuda:{source}", *(rate(source, target) for target in range(count)))
    without = [
        f"cuda:{source} to cuda:{target}"
        for source, target in itertools.permutations(range(count), 2)
        if not torch.cuda.can_device_access_peer(source, target)
    ]
    study.log_line(f"without peer access: {', '.join(without) or 'none'}")


@workload(
    group="health",
    title="host to device and back",
    about="Copies a tensor to the device and back again, one after the other; on the CPU, the same "
    "two copies within host memory. The rate counts each byte once per crossing.",
    look_for="The rate against one direction of the link: the two copies share a stream, so they "
    "never overlap. Set memory=pageable to compare: such a copy passes through the driver's "
    "staging buffer. On the CPU each copy reads and writes each byte, so the rate counts both, and "
    "memory= changes nothing.",
    devices=("cpu", "cuda", "mps"),
)
def transfer(
    on: Place,
    mib: Annotated[int, whole(1, 65_536, "size of the tensor, MiB")] = 64,
    memory: Annotated[str, one_of(("pinned", "pageable"), "host memory")] = "pinned",
) -> Case:
    import torch

    from workloads.declare.place import pinned_bytes
    from workloads.scripts.transfer import round_trip

    size = mib * 2**20
    pinned = memory == "pinned" and on.type == "cuda"
    in_host = 2 * (pinned_bytes(size) if pinned else size)
    purpose = f"a tensor of {mib} MiB and its copies"
    on.require(3 * size if on.type == "cpu" else size, purpose, host=in_host)
    host = on.host_randn(size // 4, pinned=pinned)
    back = torch.empty_like(host, pin_memory=pinned)
    on_device = torch.empty_like(host, device=on.device)

    timed = partial(round_trip, host, on_device, back)

    def study(study: Study) -> None:
        to_device = study.time(lambda: on_device.copy_(host, non_blocking=True))
        to_host = study.time(lambda: back.copy_(on_device, non_blocking=True))
        study.figure("to_device", size / to_device, "byte/s", "host to device alone, wall clock")
        study.figure("to_host", size / to_host, "byte/s", "device to host alone, wall clock")

    if on.type == "cpu":
        return Case(timed, clock="wall", byte=4 * size, byte_limit="memory")
    return Case(timed, clock="wall", byte=2 * size, byte_limit="pcie", study=study)
