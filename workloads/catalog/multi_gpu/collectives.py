"""The collective operations of torch.distributed: time and bandwidths, as nccl-tests has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from workloads.declare.study import Study
from workloads.declare.workload import Case, Skip, one_of, whole, workload
from workloads.measure import estimates
from workloads.protocol.collective_names import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE_SCATTER,
    bus_factor,
)
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

KIB, MIB = 2**10, 2**20
SMALLEST = 8 * KIB
CPU_LARGEST, GPU_LARGEST = 16 * MIB, 256 * MIB
TOLERANCE = 1e-5
"""Tolerance for float32 sums over ranks, whose order varies: a few units of round-off."""


def on_this_host(size: int) -> int:
    """Return the bytes that this host's ranks need together where they share its memory."""
    return size * int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


@workload(
    group="multi_gpu",
    title="all-reduce over several ranks",
    about="Each rank holds a tensor; after torch.distributed.all_reduce each holds the average of "
    "all, as data-parallel training does with its gradients. One process per GPU with NCCL, or "
    "two processes on the CPU with gloo, started by torchrun. For several hosts start the same "
    "run on each, with hosts and rendezvous set.",
    look_for="The bus bandwidth: what each link carries, comparable with the hardware whatever "
    "the number of ranks (algorithm bandwidth times 2(n-1)/n). Small tensors cost their latency "
    "alone, which is why gradients are sent in buckets.",
    devices=("cpu", "cuda"),
    needs=("torch.distributed",),
    ranks=True,
)
def all_reduce(
    on: Place, mib: Annotated[int, whole(1, 16_384, "size of the tensor, MiB")] = 16
) -> Case:
    import torch.distributed as dist

    from workloads.scripts.all_reduce import average

    rank, world = dist.get_rank(), dist.get_world_size()
    size = mib * MIB
    largest = max(size, GPU_LARGEST if on.type == "cuda" else CPU_LARGEST)
    need = largest if on.type == "cuda" else on_this_host(largest)
    on.require(2 * need, f"a tensor of {largest // MIB} MiB in each rank")
    # Each rank draws the same numbers; shifted by the rank, they differ and their mean is known.
    drawn = on.randn(largest // 4)
    everything = drawn + rank
    tensor = everything[: size // 4]

    def check() -> Check:
        own = drawn[: 64 * KIB] + rank
        average(own)
        expected = drawn[: 64 * KIB].double() + (world - 1) / 2
        error = float((own.double() - expected).abs().max() / expected.abs().max())
        return Check(error <= TOLERANCE, error, TOLERANCE, "the average, in float64")

    def study(study: Study) -> None:
        _bandwidth_figures(study, size, world)
        study.chart(
            "sizes",
            "rate over the size of the tensor",
            "byte",
            ("time", "s"),
            ("algorithm bandwidth", "byte/s"),
            ("bus bandwidth", "byte/s"),
        )
        times = {}
        for count in estimates.doublings(SMALLEST, largest, 4):
            part = everything[: count // 4]
            times[count] = study.time(partial(average, part))
            rate = count / times[count]
            study.point("sizes", count, times[count], rate, rate * bus_factor(ALL_REDUCE, world))
        _add_conclusion(study, times)

    timed = partial(average, tensor)
    return Case(timed, clock="wall", byte=size, check=check, study=study)


def _bandwidth_figures(study: Study, size: int, world: int) -> None:
    rate = size / study.median_s
    study.figure("algorithm_bandwidth", rate, "byte/s", "size over time")
    about = "size over time, times 2(n-1)/n"
    if world == 1:
        study.absent("bus_bandwidth", "one rank sends nothing", "byte/s", about)
    else:
        study.figure("bus_bandwidth", rate * bus_factor(ALL_REDUCE, world), "byte/s", about)


def _add_conclusion(study: Study, times: dict[int, float]) -> None:
    rates = {size: size / seconds for size, seconds in times.items()}
    best = max(rates.values())
    half = min(size for size, rate in rates.items() if rate >= best / 2)
    study.mark("sizes", f"half of the highest rate is reached at {half // KIB} KiB")
    small = times[SMALLEST]
    study.mark("sizes", f"{SMALLEST // KIB} KiB takes {small * 1e6:.0f} µs: the latency alone")


OPERATIONS = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST, ALL_REDUCE)
CHECKED = 64 * KIB
"""Bytes of the tensors whose results are compared with the known ones."""
ALONE = "one rank sends nothing"


@dataclass(frozen=True, slots=True)
class CollectiveData:
    """A rank's tensors: two of the whole size, and one of this rank's part."""

    whole: torch.Tensor
    part: torch.Tensor
    other: torch.Tensor

    @classmethod
    def drawn(
        cls, on: Place, count: int, rank: int, ranks: int
    ) -> tuple[torch.Tensor, CollectiveData]:
        """Return random numbers that all ranks draw alike, and a rank's own: those plus its number.

        Args:
            on: the rank's device.
            count: numbers of the whole tensor; rounded down to equal parts.
            rank: this rank's number.
            ranks: their number.
        """
        import torch

        drawn = on.randn(count // ranks * ranks)
        own = drawn + rank
        return drawn, cls(own, own[: len(own) // ranks].clone(), torch.empty_like(own))

    def first(self, size: int, ranks: int) -> CollectiveData:
        """Return views of the first ``size`` bytes, rounded down to equal parts."""
        count = size // self.whole.itemsize // ranks
        return CollectiveData(
            self.whole[: count * ranks], self.part[:count], self.other[: count * ranks]
        )

    def result_of(self, operation: str) -> torch.Tensor:
        """Return the tensor into which the operation writes."""
        return {REDUCE_SCATTER: self.part, ALL_TO_ALL: self.other}.get(operation, self.whole)


def expected(operation: str, drawn: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Return a rank's result in float64, where each rank starts from ``drawn`` plus its number.

    Args:
        operation: one of :data:`OPERATIONS`.
        drawn: the numbers that all ranks have drawn alike.
        rank: this rank's number.
        ranks: their number.
    """
    import torch

    drawn = drawn.double()
    own = drawn.chunk(ranks)[rank]
    if operation == ALL_REDUCE:
        return drawn + (ranks - 1) / 2
    if operation == REDUCE_SCATTER:
        return ranks * own + ranks * (ranks - 1) / 2
    if operation == BROADCAST:
        return drawn
    if operation == ALL_GATHER:
        # Each rank gives its numbers of the first part.
        return torch.cat([drawn.chunk(ranks)[0] + number for number in range(ranks)])
    return torch.cat([own + number for number in range(ranks)])


@workload(
    group="multi_gpu",
    title="collective operations over several ranks",
    about="All-gather, reduce-scatter, all-to-all, broadcast and all-reduce of torch.distributed, "
    f"over messages from {SMALLEST // KIB} KiB on. One process per GPU with NCCL, or two processes "
    "on the CPU with gloo, started by torchrun. Sharded training (FSDP) gathers parameters and "
    "scatters gradients; mixtures of experts exchange tokens all to all.",
    look_for="The bus bandwidths: what each link carries, so they should be near each other and "
    "near the hardware's, whatever the operation and the number of ranks. All-reduce moves as much "
    "as reduce-scatter and all-gather together. gloo has no reduce-scatter of its own: torch "
    "reduces the whole tensor and keeps one part.",
    devices=("cpu", "cuda"),
    needs=("torch.distributed",),
    ranks=True,
)
def collectives(
    on: Place,
    operation: Annotated[str, one_of(OPERATIONS, "of the time on top")] = ALL_GATHER,
    mib: Annotated[int, whole(1, 16_384, "size of the whole tensor, MiB")] = 16,
) -> Case:
    import torch
    import torch.distributed as dist

    from workloads.declare.place import relative
    from workloads.scripts.collectives import communicate

    rank, ranks = dist.get_rank(), dist.get_world_size()
    size = mib * MIB // (4 * ranks) * (4 * ranks)
    largest = max(size, GPU_LARGEST if on.type == "cuda" else CPU_LARGEST)
    need = 3 * largest + largest // ranks
    purpose = f"three tensors of {largest // MIB} MiB in each rank"
    on.require(need if on.type == "cuda" else on_this_host(need), purpose)
    data = CollectiveData.drawn(on, largest // 4, rank, ranks)[1]
    of_size = data.first(size, ranks)
    timed = partial(communicate, operation, of_size.whole, of_size.part, of_size.other)
    try:
        timed()
    except (RuntimeError, ValueError) as error:
        raise Skip(f"{dist.get_backend()} has no {operation}: {first_line(error)}") from error

    def compare(operation: str) -> Check:
        """Compare a result with the known one, on every rank."""
        drawn, own = CollectiveData.drawn(on, CHECKED // 4, rank, ranks)
        communicate(operation, own.whole, own.part, own.other)
        known = expected(operation, drawn, rank, ranks)
        error = (own.result_of(operation).double() - known).abs().max()
        scale = known.abs().max()
        both = torch.stack([error.nan_to_num(nan=torch.inf), scale])
        dist.all_reduce(both, op=dist.ReduceOp.MAX)
        reference_name = "the known result, in float64, on every rank"
        return relative(float(both[0]), float(both[1]), TOLERANCE, reference_name)

    def study(study: Study) -> None:
        rates = BusRates(study, ranks, _limit_of(on, ranks))
        study.figure("algorithm_bandwidth", size / study.median_s, "byte/s", "size over time")
        share = {ALL_REDUCE: "2(n-1)/n", BROADCAST: "1"}.get(operation, "(n-1)/n")
        about = f"size over time, times {share} for n ranks, as in nccl-tests"
        if ranks == 1:
            study.absent("bus_bandwidth", ALONE, "byte/s", about)
        else:
            bus = size / study.median_s * bus_factor(operation, ranks)
            study.figure("bus_bandwidth", bus, "byte/s", about)
        available = rates.compare(of_size, size, compare)
        if ranks > 1:
            sizes = estimates.doublings(SMALLEST, largest, 4)
            rates.chart(data, available, sizes[::2] if study.quick else sizes)

    traffic = round(size * bus_factor(operation, ranks)) if ranks > 1 else None
    limit = None if operation == ALL_REDUCE else _limit_of(on, ranks)
    return Case(
        timed,
        clock="wall",
        byte=traffic,
        byte_limit=limit,
        check=partial(compare, operation),
        study=study,
    )


def _limit_of(on: Place, ranks: int) -> Literal["nvlink"] | None:
    """Return the limit of the bus bandwidth; ``None`` where other links than NVLink may count."""
    one_host = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) == ranks
    return "nvlink" if on.type == "cuda" and one_host and ranks > 1 else None


@dataclass(frozen=True, slots=True)
class BusRates:
    """The bandwidths of all operations.

    Args:
        study: receives the bandwidths.
        ranks: number of ranks.
        limit: the kind of limit of the bus bandwidth, if there is one.
    """

    study: Study
    ranks: int
    limit: str | None

    def compare(self, data: CollectiveData, size: int, check: Callable[[str], Check]) -> list[str]:
        """Add a table of the operations on one size; return the operations of the backend."""
        import torch.distributed as dist

        study, available = self.study, []
        study.table(
            "operations", f"{size / MIB:.3g} MiB, by operation",
            "operation", ("time", "s"), ("algorithm bandwidth", "byte/s"),
            ("bus bandwidth", "byte/s"), "largest difference", "result",
        )  # fmt: skip
        for operation in OPERATIONS:
            try:
                checked = check(operation)
            except (RuntimeError, ValueError) as failure:
                study.log_line(f"{operation}: {dist.get_backend()} has none: {first_line(failure)}")
                continue
            available.append(operation)
            seconds = self._time(operation, data)
            bus = self._bus(operation, size, seconds)
            result = "passed" if checked.passed else "wrong"
            study.row("operations", operation, seconds, size / seconds, bus, checked.error, result)
        study.unavailable["tables.operations.largest difference"] = "it is not a finite number"
        if self.ranks == 1:
            study.unavailable["tables.operations.bus bandwidth"] = ALONE
        return available

    def chart(self, data: CollectiveData, operations: Sequence[str], sizes: Sequence[int]) -> None:
        """Add a chart of the bus bandwidths over the size."""
        lines = [(operation, "byte/s") for operation in operations]
        self.study.chart("sizes", "bus bandwidth over the size of the tensor", "byte", *lines)
        for size in sizes:
            part = data.first(size, self.ranks)
            buses = [self._bus(name, size, self._time(name, part)) for name in operations]
            self.study.point("sizes", size, *buses)

    def _time(self, operation: str, data: CollectiveData) -> float:
        from workloads.scripts.collectives import communicate

        call = partial(communicate, operation, data.whole, data.part, data.other)
        return self.study.time(call)

    def _bus(self, operation: str, size: int, seconds: float) -> float | None:
        if self.ranks == 1:
            return None
        rate = size / seconds * bus_factor(operation, self.ranks)
        # Reductions within the switch (NVLS) send each byte once, so no link bounds this rate.
        if self.limit and operation != ALL_REDUCE:
            self.study.check_rate(f"{operation} of {size} bytes", rate, self.limit)
        return rate
