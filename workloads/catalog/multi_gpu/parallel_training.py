"""Training with several GPUs: replicated by DataParallel and DDP, and sharded by FSDP2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.multi_gpu.collectives import TOLERANCE, on_this_host
from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.collective_names import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    bus_factor,
)
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

OUTPUT_TOLERANCE = 5e-3
"""Tolerance of DataParallel's output: batch sizes and kernels differ from one GPU's; maybe TF32."""


@workload(
    group="multi_gpu",
    title="training with DataParallel",
    about="torch.nn.DataParallel: one process splits each batch over the GPUs, copies the model to "
    "all of them in every step and gathers the results on the first. One line of code, but "
    "PyTorch recommends DistributedDataParallel even on a single machine.",
    look_for="The speed-up over one GPU: often below one, since each step copies the model and "
    "a single Python process launches the kernels of all GPUs: it has a thread for each, and they "
    "share the interpreter's lock. Compare it with ddp_training at the same batch per GPU.",
    devices=("cuda",),
    needs=("2 GPUs",),
)
def data_parallel(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples, divided among the GPUs")] = 2048,
    width: Annotated[int, whole(1, 32_768, "of the three hidden layers")] = 2048,
) -> Case:
    import torch

    from workloads.catalog.shared.models import perceptron
    from workloads.scripts.data_parallel import train_step

    size = 4 * (3 * (3 * width * width + 2 * width) + 12 * batch * width)
    on.require(size, f"a model of width {width} and a batch of {batch}")
    single = perceptron(on, width)
    # The first of device_ids must be where the parameters are.
    others = [index for index in range(torch.cuda.device_count()) if index != on.device.index]
    gpus = [on.device.index or 0, *others]
    model = torch.nn.DataParallel(single, device_ids=gpus)
    inputs, targets = on.randn(batch, width), on.randn(batch, 1)
    optimizer = torch.optim.SGD(single.parameters(), lr=1e-3)
    timed = partial(train_step, model, optimizer, inputs, targets)

    def check() -> Check:
        with torch.no_grad():
            expected, replicated = single(inputs), model(inputs)
        error = float((replicated - expected).abs().max() / expected.abs().max())
        return Check(error <= OUTPUT_TOLERANCE, error, OUTPUT_TOLERANCE, "the output of one GPU")

    def study(study: Study) -> None:
        study.figure("gpus", float(1 + len(others)), "", "among which the batch is divided")
        calls = {
            "one GPU": partial(train_step, single, optimizer, inputs, targets),
            "DataParallel": timed,
        }
        study.variants(
            "ways", "the same batch on one GPU and on all", calls, per_call=(batch, "samples/s")
        )

    devices = tuple(f"cuda:{index}" for index in gpus)
    return Case(timed, clock="wall", item=batch, devices=devices, check=check, study=study)


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

    timed = partial(train_step, model, optimizer, inputs, targets)
    own_optimizer = torch.optim.SGD(alone.parameters(), lr=1e-3)
    without_exchange = partial(train_step, alone, own_optimizer, inputs, targets)

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
            "scaling", f"what {world} ranks make of the work of one",
            "way", ("step", "s"), ("rate", "samples/s"), ("efficiency", "%"),
        )  # fmt: skip
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


CHECKED_STEPS = 3
LOSS_TOLERANCE = 1e-4
"""Tolerance of a loss after a few steps: AdamW divides by the size of a gradient, so that rounding
in another order changes a weight with a tiny gradient by more than the rounding itself."""
STATE = 2
"""Numbers that AdamW stores for a weight (Kingma, Ba, arXiv:1412.6980; Loshchilov, Hutter,
arXiv:1711.05101): both moments."""


@workload(
    group="multi_gpu",
    title="training with FSDP2",
    about="The same model and batches as ddp_training, but each rank stores a part of the "
    "parameters, gradients and AdamW's moments (torch.distributed.fsdp.fully_shard, ZeRO stage 3). "
    "A layer's parameters are gathered when it runs and freed after it, its gradients are summed "
    "and scattered. One process per GPU (NCCL), or two on the CPU (gloo), started by torchrun.",
    look_for="The memory of a rank against DDP's: a share of 1/n, beside one gathered layer. The "
    "step moves 1.5 times as much as DDP's, since parameters are gathered in forward and again in "
    "backward; keeping them after forward saves one of both. The losses must be those of DDP.",
    devices=("cpu", "cuda"),
    needs=("torch.distributed",),
    ranks=True,
)
def fsdp_training(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples in a batch of each rank")] = 128,
    width: Annotated[int, whole(1, 32_768, "of the three hidden layers")] = 512,
) -> Case:
    import torch
    import torch.distributed as dist

    from workloads.catalog.shared.models import perceptron, perceptron_flop
    from workloads.declare.place import precision, relative
    from workloads.scripts.fsdp_training import train_step

    rank, ranks = dist.get_rank(), dist.get_world_size()
    _require(on, batch, width, ranks)
    # Every rank draws the data of all and takes its own part.
    own = slice(rank * batch, (rank + 1) * batch)
    inputs = on.randn(ranks * batch, width)[own].clone()
    targets = on.randn(ranks * batch, 1)[own].clone()

    def step(trained: Trained) -> torch.Tensor:
        return train_step(trained.model, trained.optimizer, inputs, targets)

    sharded = shard(perceptron(on, width), on, ranks)
    timed = partial(step, sharded)

    def losses(trained: Trained) -> torch.Tensor:
        """Return the loss of each step, averaged over the ranks."""
        steps = torch.stack([step(trained) for _ in range(CHECKED_STEPS)])
        dist.all_reduce(steps, op=dist.ReduceOp.AVG)
        return steps

    def check() -> Check:
        expected = losses(replicate(perceptron(on, width), on)).double()
        sharded = losses(shard(perceptron(on, width), on, ranks)).double()
        difference, largest = float((sharded - expected).abs().max()), float(expected.abs().max())
        reference_name = f"DDP's loss in each of {CHECKED_STEPS} steps from the same weights"
        return relative(difference, largest, LOSS_TOLERANCE, reference_name)

    def study(study: Study) -> None:
        replicated = replicate(perceptron(on, width), on)
        unsharded = shard(perceptron(on, width), on, ranks, keep=True)
        study.variants(
            "ways",
            f"a training step, ranks: {ranks}",
            {
                "DDP": partial(step, replicated),
                "FSDP2": timed,
                "FSDP2, parameters kept after forward": partial(step, unsharded),
            },
            per_call=(ranks * batch, "samples/s"),
            peaks=on.type == "cuda",
        )
        _compare_memory(study, replicated, sharded)
        _compare_traffic(study, replicated, ranks)

    return Case(
        timed,
        clock="wall",
        flop=perceptron_flop(batch, width),
        item=ranks * batch,
        precision=precision(on, "float32", "matmul"),
        check=check,
        study=study,
    )


@dataclass(frozen=True, slots=True)
class Trained:
    """A model with its optimizer."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def stored(self) -> dict[str, int]:
        """Return the bytes that this rank stores, after a step."""
        weights = list(self.model.parameters())
        state = [
            tensor
            for state in self.optimizer.state.values()
            for name, tensor in state.items()
            if name.startswith("exp_avg")
        ]
        return {
            "parameters": _local_bytes(weights),
            "gradients": _local_bytes(
                [weight.grad for weight in weights if weight.grad is not None]
            ),
            "optimizer state": _local_bytes(state),
        }


def replicate(model: torch.nn.Module, on: Place) -> Trained:
    """Return the model under DistributedDataParallel, with AdamW."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    device_ids = [on.device.index] if on.type == "cuda" else None
    parallel = DistributedDataParallel(model, device_ids=device_ids)
    return Trained(parallel, torch.optim.AdamW(parallel.parameters(), lr=1e-3))


def shard(model: torch.nn.Module, on: Place, ranks: int, *, keep: bool = False) -> Trained:
    """Return the model sharded layer by layer over all ranks, with AdamW.

    Args:
        model: the whole model, with the same weights in every rank.
        on: the rank's device.
        ranks: their number.
        keep: a layer's gathered parameters stay from forward to backward.
    """
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(on.type, (ranks,))
    for layer in model.children():
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh, reshard_after_forward=not keep)
    fully_shard(model, mesh=mesh, reshard_after_forward=not keep)
    return Trained(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def _local_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the parts that this rank stores."""
    from torch.distributed.tensor import DTensor

    parts = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return sum(part.nbytes for part in parts)


def _require(on: Place, batch: int, width: int, ranks: int) -> None:
    """Check that there is room for the models of the study and of the check."""
    weights = 4 * (3 * width * width + 5 * width + 1)
    # Weights, gradients, both moments and DDP's buckets.
    replicated = (1 + 1 + STATE + 1) * weights
    # The rank's parts of these, without buckets; the whole model before, or its gathered layers.
    sharded = (1 + 1 + STATE) * weights // ranks + 2 * weights
    size = 2 * replicated + 3 * sharded + 4 * 12 * batch * width
    need = size if on.type == "cuda" else on_this_host(size)
    on.require(need, f"models of width {width} and a batch of {batch} in each rank")


def _compare_memory(study: Study, replicated: Trained, sharded: Trained) -> None:
    """Add the bytes that this rank stores of each model."""
    study.table(
        "memory", "what this rank stores",
        "tensors", ("DDP", "byte"), ("FSDP2", "byte"), ("share", "%"),
    )  # fmt: skip
    all_of, part_of = replicated.stored(), sharded.stored()
    for name, size in all_of.items():
        study.row("memory", name, float(size), float(part_of[name]), 100 * part_of[name] / size)
    total, part = sum(all_of.values()), sum(part_of.values())
    study.row("memory", "together", float(total), float(part), 100 * part / total)
    about = "of parameters, gradients and optimizer state, over DDP's on each rank"
    study.figure("stored_share", 100 * part / total, "%", about)


def _compare_traffic(study: Study, replicated: Trained, ranks: int) -> None:
    """Add the bytes that a rank sends in a step, by formula."""
    size = replicated.stored()["parameters"]
    gathered, scattered = bus_factor(ALL_GATHER, ranks), bus_factor(REDUCE_SCATTER, ranks)
    # Rajbhandari et al., ZeRO (arXiv:1910.02054), section 7.
    about = "each rank sends in a step: gradients averaged over the ranks"
    study.figure("traffic_ddp", size * bus_factor(ALL_REDUCE, ranks), "byte", about)
    about = "each rank sends in a step: parameters gathered twice, gradients scattered"
    study.figure("traffic_fsdp", size * (2 * gathered + scattered), "byte", about)
