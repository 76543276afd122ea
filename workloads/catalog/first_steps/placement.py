"""The devices that torch sees, and the location of tensors and models."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


CLASSES = 10


@workload(
    group="first_steps",
    title="placing tensors and a model on a device",
    about="Selects a device with a fallback to the CPU, moves a model there once and a batch of "
    "data there in each call, and runs the model on it.",
    look_for="In the table each parameter before and after model.to(device): a module "
    "moves in place, a tensor's .to returns a copy, or the same tensor where it is there already. "
    "A tensor that is needed on the device is best created there: device=device spares the copy; "
    ".cuda() is .to() that knows CUDA alone. On the CPU nothing has to move, and both ways to make "
    "a tensor do the same.",
    question="batch.to(device) and model.to(device) each stand alone on a line. What has moved?",
    choices=(
        "both",
        "only the batch",
        "only the model",
    ),
    right_choice=3,
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

    size = 4 * (width * (width + CLASSES + 2) + 4 * batch * width)
    on.require(size, "the model and its batch", host=size)
    data = on.host_randn(batch, width)
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, CLASSES)
    )
    before = {name: str(tensor.device) for name, tensor in model.state_dict().items()}
    moved = model.to(on.device)

    def study(study: Study) -> None:
        _selection(study)
        _show_locations(study, model, before)
        on_device = data.to(on.device)
        same = {True: "the same tensor", False: "a new tensor"}
        about = "what .to(device) returned for a tensor in host memory"
        study.figure("tensor_to", same[on_device is data], "", about)
        about = "what .to(device) returned for a tensor that was there already"
        study.figure("tensor_to_again", same[on_device.to(on.device) is on_device], "", about)
        itself = "the model itself" if moved is model else "a new model"
        study.figure("model_to", itself, "", "what model.to(device) returned")
        again = study.time(lambda: on_device.to(on.device))
        study.figure("to_again", again, "s", "a .to that has nothing to do")
        ways = {
            "on the host, then .to": lambda: torch.randn(batch, width).to(on.device),
            "on the device": lambda: torch.randn(batch, width, device=on.device),
        }
        if on.type == "cuda":
            ways["on the host, then .cuda"] = lambda: torch.randn(batch, width).cuda(on.device)
        study.variants(
            "creation",
            f"a {batch} x {width} tensor of random numbers",
            ways,
            per_call=(4 * batch * width, "byte/s"),
        )

    timed = functools.partial(predict, model, data, on.device)
    return Case(timed, clock="wall", item=batch, study=study)


def _selection(study: Study) -> None:
    import torch

    available = torch.cuda.is_available()
    selected = torch.device("cuda" if available else "cpu")
    study.figure("cuda_is_available", str(available), "", "torch.cuda.is_available()")
    count = torch.cuda.device_count() if available else 0
    study.figure("device_count", float(count), "", "CUDA devices that torch sees")
    about = "torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
    study.figure("fallback_selects", str(selected), "", about)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    about = "torch.accelerator.current_accelerator(): CUDA, MPS, XPU and others by one name"
    study.figure("accelerator", str(accelerator or "none"), "", about)
    for index in range(count):
        study.log_line(f"cuda:{index} is {torch.cuda.get_device_name(index)}")


def _show_locations(study: Study, model: torch.nn.Module, before: dict[str, str]) -> None:
    study.table(
        "tensors", "the model's tensors before and after model.to(device)",
        "name", "kind", "shape", "dtype", ("size", "byte"), "before", "after",
    )  # fmt: skip
    parameters = {name for name, _ in model.named_parameters()}
    for name, tensor in model.state_dict().items():
        kind = "parameter" if name in parameters else "buffer"
        shape = " x ".join(map(str, tensor.shape)) or "scalar"
        dtype = str(tensor.dtype).removeprefix("torch.")
        size = float(tensor.numel() * tensor.element_size())
        study.row("tensors", name, kind, shape, dtype, size, before[name], str(tensor.device))


@workload(
    group="first_steps",
    title="list of devices",
    about="What torch sees: torch.cuda.device_count(), and each GPU's name, compute capability, "
    "multiprocessors and memory. CUDA_VISIBLE_DEVICES decides which GPUs a process sees and in "
    "which order; without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA also puts the fastest first. So cuda:0 "
    "need not be the first of nvidia-smi.",
    look_for="The number of GPUs, and whether they are alike: work that is divided evenly waits "
    "for the slowest. Without a GPU the table lists the CPU alone, and the log says why.",
    question="nvidia-smi numbers a GPU 1. Is it cuda:1 in torch?",
    choices=(
        "yes: both count the slots",
        "not always: torch may count them in another order",
        "never: torch does not count the GPU of the display",
    ),
    right_choice=2,
    answer="Not always. CUDA_VISIBLE_DEVICES hides and renumbers GPUs, and without "
    "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA puts the fastest first. Compare the UUIDs of nvidia-smi -L "
    "and torch.cuda.get_device_properties(index).uuid.",
)
def device_list(on: Place) -> Case:
    from workloads.measure import environment
    from workloads.scripts.device_list import gpu_names

    def study(study: Study) -> None:
        study.figure("gpus", float(len(gpu_names())), "", "torch.cuda.device_count()")
        study.figure("this_device", str(on.device), "", "where this run took place")
        study.table(
            "devices", "devices that torch sees",
            "device", "name", "capability", "multiprocessors", ("memory", "byte"),
        )  # fmt: skip
        absent: dict[str, str] = {}
        study.unavailable["tables.devices"] = "torch does not report it for every kind of device"
        for device in environment.all_devices(absent):
            units, memory = device.multi_processors, device.total_memory
            numbers = [None if value is None else float(value) for value in (units, memory)]
            study.row("devices", device.id, device.name, device.capability, *numbers)
        for reason in absent.values():
            study.log_line(reason)

    return Case(gpu_names, clock="wall", study=study)
