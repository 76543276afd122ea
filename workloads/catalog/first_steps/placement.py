"""Copies between the host and a device, and the location of tensors and models."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.protocol.results import DataColumn

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


@workload(
    group="health",
    title="host to device and back",
    about="Copies a tensor to the device and back again, one after the other; on the CPU, its "
    "twin: the same two copies within host memory. The rate counts each byte once per crossing.",
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
    what = f"a tensor of {mib} MiB and its copies"
    on.require(3 * size if on.type == "cpu" else size, what, host=in_host)
    host = on.host_randn(size // 4, pinned=pinned)
    back = torch.empty_like(host, pin_memory=pinned)
    there = torch.empty_like(host, device=on.device)

    timed = functools.partial(round_trip, host, there, back)

    def study(found: Study) -> None:
        to_device = found.time(lambda: there.copy_(host, non_blocking=True))
        to_host = found.time(lambda: back.copy_(there, non_blocking=True))
        found.figure("to_device", size / to_device, "byte/s", "host to device alone, wall clock")
        found.figure("to_host", size / to_host, "byte/s", "device to host alone, wall clock")

    if on.type == "cpu":
        return Case(timed, clock="wall", byte=4 * size, byte_limit="memory")
    return Case(timed, clock="wall", byte=2 * size, byte_limit="pcie", study=study)


CLASSES = 10
LOOPED = (16, 256)
"""Sizes in MiB on the CPU and on a GPU, too large for the cache."""


@workload(
    group="first_steps",
    title="placing tensors and a model on a device",
    about="Selects a device with a fallback to the CPU, moves a model there once and a batch of "
    "data there in each call, and runs the model on it.",
    look_for="In the table each parameter and buffer before and after model.to(device): a module "
    "moves in place, a tensor's .to returns a copy, or the same tensor where it is there already. "
    "A tensor that is needed on the device is best created there: device=device spares the copy; "
    ".cuda() is .to() that knows CUDA alone. On the CPU nothing has to move, and both ways to make "
    "a tensor do the same.",
    question="batch.to(device) and model.to(device) each stand alone on a line. What has moved?",
    answer="Only the model: it moves in place. The batch is where it was, because a tensor's .to "
    "returns a copy on the device, or the same tensor if it is already there: write batch = "
    "batch.to(device).",
)
def placement(
    on: Place,
    batch: Annotated[int, whole(2, 65_536, "samples in the batch")] = 256,
    width: Annotated[int, whole(1, 16_384, "features of a sample, and of the hidden layer")] = 512,
) -> Case:
    import torch

    from workloads.declare.place import SEED
    from workloads.scripts.placement import predict

    size = 4 * (width * (width + CLASSES + 5) + 4 * batch * width)
    on.require(size, "the model and its batch", host=size)
    data = on.host_randn(batch, width)
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width),
        torch.nn.BatchNorm1d(width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, CLASSES),
    ).eval()
    before = {name: str(tensor.device) for name, tensor in model.state_dict().items()}
    moved = model.to(on.device)

    def study(found: Study) -> None:
        _selection(found)
        _where(found, model, before)
        there = data.to(on.device)
        same = {True: "the same tensor", False: "a new tensor"}
        about = "what .to(device) returned for a tensor in host memory"
        found.figure("tensor_to", same[there is data], "", about)
        about = "what .to(device) returned for a tensor that was there already"
        found.figure("tensor_to_again", same[there.to(on.device) is there], "", about)
        itself = "the model itself" if moved is model else "a new model"
        found.figure("model_to", itself, "", "what model.to(device) returned")
        again = found.time(lambda: there.to(on.device))
        found.figure("to_again", again, "s", "a .to that has nothing to do")
        ways = {
            "on the host, then .to": lambda: torch.randn(batch, width).to(on.device),
            "on the device": lambda: torch.randn(batch, width, device=on.device),
        }
        if on.type == "cuda":
            ways["on the host, then .cuda"] = lambda: torch.randn(batch, width).cuda(on.device)
        found.variants(
            "creation",
            f"a {batch} x {width} tensor of random numbers",
            ways,
            per_call=(4 * batch * width, "byte/s"),
        )

    timed = functools.partial(predict, model, data, on.device)
    return Case(timed, clock="wall", item=batch, study=study)


def _selection(found: Study) -> None:
    import torch

    available = torch.cuda.is_available()
    selected = torch.device("cuda" if available else "cpu")
    found.figure("cuda_is_available", str(available), "", "torch.cuda.is_available()")
    count = torch.cuda.device_count() if available else 0
    found.figure("device_count", float(count), "", "CUDA devices that torch sees")
    about = "torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
    found.figure("fallback_selects", str(selected), "", about)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    about = "torch.accelerator.current_accelerator(): CUDA, MPS, XPU and others by one name"
    found.figure("accelerator", str(accelerator or "none"), "", about)
    for index in range(count):
        found.say(f"cuda:{index} is {torch.cuda.get_device_name(index)}")


def _where(found: Study, model: torch.nn.Module, before: dict[str, str]) -> None:
    found.table(
        "tensors",
        "the model's tensors before and after model.to(device)",
        DataColumn("name"), DataColumn("kind"), DataColumn("shape"), DataColumn("dtype"),
        DataColumn("size", "byte"),
        DataColumn("before"), DataColumn("after"),
    )  # fmt: skip
    parameters = {name for name, _ in model.named_parameters()}
    for name, tensor in model.state_dict().items():
        kind = "parameter" if name in parameters else "buffer"
        shape = " x ".join(map(str, tensor.shape)) or "scalar"
        dtype = str(tensor.dtype).removeprefix("torch.")
        size = float(tensor.numel() * tensor.element_size())
        found.row("tensors", name, kind, shape, dtype, size, before[name], str(tensor.device))


@workload(
    group="first_steps",
    title="data kept on the device against copies in the loop",
    about="A loop of matrix-vector products over the same data. The data is kept on the device "
    "and one number comes back at the end; the other ways copy the data in every step, and the "
    "result back as well. On the CPU, where .to would do nothing, a copy within host memory stands "
    "for each transfer.",
    look_for="How many times slower the loop gets by copying. A GPU reads its own memory tens "
    "of times faster than the data comes over PCI Express. The rate is of the data worked "
    "through.",
    question="The data does not change. What does a .to(device) inside the loop cost on a GPU?",
    answer="A copy of all the data in each step. PCI Express is tens of times slower than the "
    "GPU's own memory, so the copy takes most of the time: move the data once, before the loop.",
)
def copies_in_loop(
    on: Place,
    mib: Annotated[int, whole(1, 16_384, "size of the data, MiB", auto=by_device(LOOPED))] = 0,
    steps: Annotated[int, whole(1, 1000, "steps in one call")] = 5,
) -> Case:
    import torch

    from workloads.scripts.copies_in_loop import copied, kept

    sizes = on.sizes(mib=(mib, LOOPED))
    mib = sizes["mib"]
    rows, columns = mib * 256, 1024
    # The data and a copy; a column of the sums, of a product, and of both added up.
    vectors = 4 * (4 * rows + columns)
    size = mib * 2**20
    on.require(2 * size + vectors, f"{mib} MiB of data and a copy", host=size + vectors)
    host = on.host_randn(rows, columns)
    there = host.to(on.device)
    vector = on.randn(columns)
    timed = functools.partial(kept, there, vector, steps)

    def copied_both_ways() -> float:
        total = torch.zeros(rows)
        for _ in range(steps):
            total = total + (host.to(on.device, copy=True) @ vector).to("cpu", copy=True)
        return total.sum().item()

    def study(found: Study) -> None:
        ways: dict[str, Callable[[], object]] = {
            "copied in, result out, every step": copied_both_ways,
            "copied in every step": functools.partial(copied, host, vector, steps),
            "kept on the device": timed,
        }
        seen = steps * mib * 2**20
        found.variants("ways", f"{steps} steps", ways, per_call=(seen, "byte/s"))

    return Case(timed, clock="wall", byte=steps * mib * 2**20, chosen=sizes, study=study)
