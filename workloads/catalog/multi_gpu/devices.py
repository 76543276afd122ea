"""The GPUs of this process: their names, the copies between them, and DataParallel."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check, DataColumn

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

COPIES = 8
"""Consecutive copies between two clock reads, so that the final wait counts for little."""
TOLERANCE = 5e-3
"""Tolerance of DataParallel's output: batch sizes and kernels differ from one GPU's; maybe TF32."""


@workload(
    group="first_steps",
    title="list of devices",
    about="What torch sees: torch.cuda.device_count(), and each GPU's name, compute capability, "
    "multiprocessors and memory. CUDA_VISIBLE_DEVICES decides which GPUs a process sees and in "
    "which order; without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA also puts the fastest first. So cuda:0 "
    "need not be the first of nvidia-smi.",
    look_for="The number of GPUs, and whether they are alike: work that is divided evenly waits "
    "for the slowest. On a box without a GPU the list is empty, and the log says why.",
    question="nvidia-smi numbers a GPU 1. Is it cuda:1 in torch?",
    answer="Not always. CUDA_VISIBLE_DEVICES hides and renumbers GPUs, and without "
    "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA puts the fastest first. Compare the UUIDs.",
)
def device_list(on: Place) -> Case:
    from workloads.measure import environment
    from workloads.scripts.device_list import gpu_names

    def study(found: Study) -> None:
        found.figure("gpus", float(len(gpu_names())), "", "torch.cuda.device_count()")
        found.figure("this_device", str(on.device), "", "where this run took place")
        found.table(
            "devices",
            "devices that torch sees",
            DataColumn("device"),
            DataColumn("name"),
            DataColumn("capability"),
            DataColumn("multiprocessors"),
            DataColumn("memory", "byte"),
        )
        absent: dict[str, str] = {}
        found.unavailable["tables.devices"] = "torch does not tell it of every kind of device"
        for each in environment.all_devices(absent):
            units, memory = each.multi_processors, each.total_memory
            numbers = [None if value is None else float(value) for value in (units, memory)]
            found.row("devices", each.id, each.name, each.capability, *numbers)
        for reason in absent.values():
            found.say(reason)

    return Case(gpu_names, clock="wall", study=study)


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
    here = on.device.index or 0
    neighbour = (here + 1) % count

    timed = functools.partial(copy, targets[neighbour], sources[here])

    def check() -> Check:
        timed()
        torch.cuda.synchronize(here)
        same = torch.equal(targets[neighbour].cpu(), sources[here].cpu())
        return Check(same, 0.0 if same else 1.0, 0.0, "the source, entry by entry")

    def study(found: Study) -> None:
        _matrix(found, sources, targets)

    pair = (f"cuda:{here}", f"cuda:{neighbour}")
    return Case(timed, byte=size, byte_limit="nvlink", devices=pair, check=check, study=study)


def _matrix(found: Study, sources: list[torch.Tensor], targets: list[torch.Tensor]) -> None:
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
        call = functools.partial(copies, source, target)
        return COPIES * size / found.time(call, "wall")

    def check_pair(source: int, target: int) -> float | None:
        found_rate = rate(source, target)
        if found_rate is not None:
            found.check_rate(f"cuda:{source} to cuda:{target}", found_rate)
        return found_rate

    names = [DataColumn(f"to cuda:{index}", "byte/s") for index in range(count)]
    found.table("matrix", "rate of copies", DataColumn("from"), *names)
    found.unavailable["tables.matrix"] = "a GPU is not timed against itself"
    for source in range(count):
        found.row("matrix", f"cuda:{source}", *(check_pair(source, each) for each in range(count)))
    without = [
        f"cuda:{source} to cuda:{target}"
        for source, target in itertools.permutations(range(count), 2)
        if not torch.cuda.can_device_access_peer(source, target)
    ]
    found.say(f"without peer access: {', '.join(without) or 'none'}")


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
    timed = functools.partial(train_step, model, optimizer, inputs, targets)

    def check() -> Check:
        with torch.no_grad():
            expected, found = single(inputs), model(inputs)
        error = float((found - expected).abs().max() / expected.abs().max())
        return Check(error <= TOLERANCE, error, TOLERANCE, "the output of one GPU")

    def study(found: Study) -> None:
        found.figure("gpus", float(1 + len(others)), "", "among which the batch is divided")
        calls = {
            "one GPU": functools.partial(train_step, single, optimizer, inputs, targets),
            "DataParallel": timed,
        }
        found.variants(
            "ways", "the same batch on one GPU and on all", calls, per_call=(batch, "samples/s")
        )

    devices = tuple(f"cuda:{index}" for index in gpus)
    return Case(timed, clock="wall", item=batch, devices=devices, check=check, study=study)
