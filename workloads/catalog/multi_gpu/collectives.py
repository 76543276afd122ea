"""Several ranks: the cost of sums over them, and of training with them."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.collective_names import ALL_REDUCE, bus_factor
from workloads.protocol.results import Check, DataColumn

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
        for count in sizes_up_to(largest):
            part = everything[: count // 4]
            times[count] = study.time(functools.partial(average, part))
            rate = count / times[count]
            study.point("sizes", count, times[count], rate, rate * bus_factor(ALL_REDUCE, world))
        _add_conclusion(study, times)

    timed = functools.partial(average, tensor)
    return Case(timed, clock="wall", byte=size, check=check, study=study)


def sizes_up_to(largest: int) -> list[int]:
    """Return the sizes from the smallest on in steps of four, and the largest."""
    sizes, size = [], SMALLEST
    while size < largest:
        sizes.append(size)
        size *= 4
    return [*sizes, largest]


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


@workload(
    group="multi_gpu",
    title="training with DistributedDataParallel",
    about="The same model in each rank, each with a batch of its own; DistributedDataParallel "
    "averages the gradients over the ranks during backward, so all take the same step. One process "
    "per GPU (NCCL), or two on the CPU (gloo), whose cores are divided among the ranks so that "
    "there are no more threads than cores. Started by torchrun.",
    look_for="The efficiency: samples per second of all ranks over those of as many ranks if "
    "nothing were lost. Ranks at once without exchange shows what sharing the machine costs; the "
    "rest is the exchange of gradients, which falls with a larger batch.",
    devices=("cpu", "cuda"),
    needs=("torch.distributed",),
    ranks=True,
)
def ddp_training(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples in a batch of each rank")] = 128,
    width: Annotated[int, whole(1, 32_768, "of the three hidden layers")] = 512,
) -> Case:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from workloads.catalog.shared.models import perceptron
    from workloads.scripts.ddp_training import train_step

    rank, world = dist.get_rank(), dist.get_world_size()
    # Weights, gradients, DDP's buckets and the model alone; activations forth and back.
    size = 4 * (6 * (3 * width * width + 2 * width) + 12 * batch * width)
    need = size if on.type == "cuda" else on_this_host(size)
    on.require(need, f"a model of width {width} and a batch of {batch} in each rank")
    alone = perceptron(on, width)
    device_ids = [on.device.index] if on.type == "cuda" else None
    model = DistributedDataParallel(perceptron(on, width), device_ids=device_ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss_function = torch.nn.MSELoss()
    # Every rank draws the data of all and takes its own part.
    inputs = on.randn(world * batch, width)[rank * batch : (rank + 1) * batch].clone()
    targets = on.randn(world * batch, 1)[rank * batch : (rank + 1) * batch].clone()

    timed = functools.partial(train_step, model, optimizer, inputs, targets)
    own_optimizer = torch.optim.SGD(alone.parameters(), lr=1e-3)
    without_exchange = functools.partial(train_step, alone, own_optimizer, inputs, targets)

    def first_rank_alone() -> object:
        return without_exchange() if rank == 0 else None

    def check() -> Check:
        alone.load_state_dict(model.module.state_dict())
        for copied in (model, alone):
            copied.zero_grad()
            loss_function(copied(inputs), targets).backward()
        return _same_gradients(_gradients(model), _gradients(alone))

    def study(study: Study) -> None:
        parameters = sum(parameter.numel() for parameter in alone.parameters())
        study.figure("gradient_bytes", 4.0 * parameters, "byte", "averaged in each step")
        ways = study.compare(
            {
                "one rank, the others idle": first_rank_alone,
                "all ranks, no exchange": without_exchange,
                "all ranks, DDP": timed,
            }
        )
        study.table(
            "scaling",
            f"what {world} ranks make of the work of one",
            DataColumn("way"),
            DataColumn("step", "s"),
            DataColumn("rate", "samples/s"),
            DataColumn("efficiency", "%"),
        )
        alone_s = ways[0].median_s
        for way, ranks in zip(ways, (1, world, world), strict=True):
            rate = ranks * batch / way.median_s
            study.row("scaling", way.name, way.median_s, rate, 100 * alone_s / way.median_s)
        about = f"rate of {world} ranks over {world} times that of one with the others idle"
        study.figure("scaling_efficiency", 100 * alone_s / ways[2].median_s, "%", about)

    return Case(timed, clock="wall", item=world * batch, check=check, study=study)


def _gradients(model: torch.nn.Module) -> torch.Tensor:
    """Return all gradients of a model in one row."""
    import torch

    gradients = [
        parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None
    ]
    return torch.cat(gradients)


def _same_gradients(averaged: torch.Tensor, own: torch.Tensor) -> Check:
    """Compare DDP's gradients with the average of the ranks' own, and with rank 0's."""
    import torch.distributed as dist

    expected = own.clone()
    dist.all_reduce(expected, op=dist.ReduceOp.AVG)
    of_first = averaged.clone()
    dist.broadcast(of_first, src=0)
    scale = expected.abs().max()
    error = float((averaged - expected).abs().max() / scale)
    apart = float((averaged - of_first).abs().max() / scale)
    reference_name = "the average of the ranks' own gradients; the same on every rank"
    return Check(error <= TOLERANCE and apart == 0.0, max(error, apart), TOLERANCE, reference_name)
