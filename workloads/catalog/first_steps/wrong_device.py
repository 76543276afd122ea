"""Device mistakes: two devices in one operation, a model left on another device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

FEATURES = 32
STEPS = 40
"""Training steps that reduce a linear target's loss by far more than noise."""
ON_THE_CPU = "this run is on the CPU"
META = (
    "this run has no GPU: torch's meta device stands in for it. It has shapes and no data, raises "
    "where its kernels notice the mixture, and lets some operations pass that a GPU refuses"
)


def other_device(on: Place) -> torch.device:
    """Return the device to mix in by mistake: the CPU beside a GPU, meta beside the CPU."""
    import torch

    return torch.device("meta" if on.type == "cpu" else "cpu")


def outcome(call: Callable[[], torch.Tensor]) -> str:
    """Run a call, and return torch's error, or the device of the result."""
    try:
        result = call()
    except (RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return f"no error: the result is on {result.device}"


@workload(
    group="first_steps",
    title="two devices in one operation",
    about="The tensors of an operation must lie on one device: else torch raises a RuntimeError "
    "rather than copy one of them. The fix is timed: move the input to the weights' device, then "
    "compute. On the CPU the meta device takes the place of the other one.",
    look_for="The error's message names both devices. "
    "Two mixtures are allowed: a CPU tensor of no dimensions (a number) beside GPU tensors, and "
    "CPU tensors as indices of a GPU tensor, which torch copies at each use. The fix costs a copy "
    "each time it is called: move the data once, not in every step.",
    question="torch says that two tensors are on different devices. Where does the .to(device) "
    "belong?",
    choices=(
        "where the tensor is made or loaded",
        "in front of the operation that failed",
        "nowhere: a setting lets torch copy it by itself",
    ),
    right_choice=1,
    answer="Where the tensor is made or loaded, once. In front of the operation it also ends the "
    "error, but on a GPU it copies the data in each call.",
)
def device_mismatch(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "rows of the input")] = 256,
    width: Annotated[int, whole(1, 16_384, "features")] = 512,
) -> Case:
    import torch

    from workloads.scripts.device_mismatch import move_and_apply

    # The layer; its input and result, and in the study the inputs that lie here and their results.
    on.require(4 * width * (width + 1 + 6 * batch), "the layer, its inputs and its results")
    other = other_device(on)
    elsewhere = torch.device("cpu")
    model = torch.nn.Linear(width, width).to(on.device)
    inputs = on.host_randn(batch, width)

    timed = functools.partial(move_and_apply, model, inputs, on.device)

    def study(study: Study) -> None:
        local, remote = on.randn(batch, width), torch.empty(batch, width, device=other)
        lost = torch.nn.Linear(width, width).to(other)
        if other.type == "meta":
            study.log_line(META)
        rows: dict[str, Callable[[], torch.Tensor]] = {
            "here + there": lambda: local + remote,
            "cat([here, there])": lambda: torch.cat([local, remote]),
            "model(there)": lambda: model(remote),
            "moved input, model left": lambda: lost(local),
            "mse_loss(here, there)": lambda: torch.nn.functional.mse_loss(local, remote),
            "number on the CPU * here": lambda: torch.tensor(2.0, device=elsewhere) * local,
            "here[indices on the CPU]": lambda: local[torch.tensor([0], device=elsewhere)],
            "here + input.to(here.device)": lambda: (
                local + on.host_randn(batch, width).to(on.device)
            ),
        }
        study.table("mixtures", "what torch says", "operation", "outcome")
        raised = 0
        for name, call in rows.items():
            message = outcome(call)
            raises = not message.startswith("no error")
            raised += raises
            study.row("mixtures", name, message.partition(":")[0] if raises else message)
            study.log_line(f"{name} -> {message}")
        study.figure("mixtures_refused", float(raised), "", f"here is {on.device}, there {other}")
        fixed = model(inputs.to(on.device))
        study.figure("device_of_the_fixed_result", str(fixed.device))
        at_home = inputs.to(on.device)
        ways: dict[str, Callable[[], object]] = {
            "move in each call": timed,
            "moved once, before": lambda: model(at_home),
        }
        study.variants("fixes", "where the fix stands", ways, clock="wall")

    return Case(timed, clock="wall", item=batch, study=study)


class Training:
    """A model, its optimizer and its data, all on one device.

    Args:
        device: the device of all three.
        width: width of the hidden layers.
        data: inputs and targets, on the host.
    """

    def __init__(
        self, device: torch.device, width: int, data: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        import torch

        from workloads.declare.place import SEED
        from workloads.scripts.model_on_cpu import build

        torch.manual_seed(SEED)
        self.model = build(FEATURES, width, device)
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=0.001)
        self._inputs, self._targets = (tensor.to(device) for tensor in data)

    def step(self) -> torch.Tensor:
        """Take one step of the optimizer, and return the loss before it."""
        from workloads.scripts.model_on_cpu import train_step

        return train_step(self.model, self._optimizer, self._inputs, self._targets)

    def train(self, steps: int) -> tuple[float, float]:
        """Train for some steps, and return the losses before the first and before the last."""
        first = last = self.step()
        for _ in range(steps - 1):
            last = self.step()
        return float(first), float(last)


@workload(
    group="first_steps",
    title="model left on the CPU",
    about="A model that was never moved trains on the CPU without a message: data and model lie "
    "there together, no error is raised, and the GPU idles. model.to(device) is what was "
    "forgotten; the step with it is timed.",
    look_for="The loss falls all the same, so the curve does not give it away; the table of where "
    "each parameter lies does, and so do 0 bytes allocated on the GPU. Where only the input is "
    "moved, torch raises the error in the log. A run on the CPU has nothing to forget: the step, "
    "the table and the error remain.",
    question="The loss falls. Does that show that the model trains on the GPU?",
    choices=(
        "yes: on the CPU torch would warn",
        "yes, if the script's device is cuda",
        "no",
    ),
    right_choice=3,
    answer="No. A model and data that were left on the CPU train there without an error. "
    "next(model.parameters()).device says where the model is; 0 bytes allocated on the GPU say "
    "that nothing is there.",
)
def model_on_cpu(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples")] = 128,
    width: Annotated[int, whole(1, 16_384, "width of the hidden layers")] = 256,
) -> Case:
    import torch

    # Weights, gradients, Adam's two moments and what its step makes of one; each hidden layer's
    # result, the second's before ReLU, and two gradients that pass by.
    parameters = width * (width + FEATURES + 3) + 1
    activations = batch * (5 * width + FEATURES + 4)
    on.require(4 * (6 * parameters + activations), "the model and Adam")
    inputs = on.host_randn(batch, FEATURES)
    data = (inputs, inputs.sum(1, keepdim=True) + 1)
    cpu = torch.device("cpu")

    moved = Training(on.device, width, data)
    losses = functools.cache(lambda: Training(cpu, width, data).train(STEPS))

    def check() -> Check:
        first, last = losses()
        return Check(last < first, last / first, 1.0, f"the loss before {STEPS} steps, as a ratio")

    def study(study: Study) -> None:
        before = study.memory_in_use().allocated
        left = Training(cpu, width, data)
        after = study.memory_in_use().allocated
        title = "where the parameters lie"
        study.table("places", title, "parameter", "elements", "left", "moved")
        for (name, parameter), twin in zip(
            left.model.named_parameters(), moved.model.parameters(), strict=True
        ):
            study.row("places", name, parameter.numel(), str(parameter.device), str(twin.device))
        first, last = losses()
        study.figure("first_loss", first, "", "of the model left on the CPU")
        study.figure("last_loss", last, "", f"of the same after {STEPS} steps: it falls")
        _wrong_half(study, other_device(on) if on.type == "cpu" else on.device, left.model)
        about = "device bytes that building the left model took"
        if on.type == "cpu" or before is None or after is None:
            reason = ON_THE_CPU if on.type == "cpu" else "not reported"
            study.absent("gpu_bytes_of_left_model", reason, "byte", about)
            study.absent("speed_up_by_moving", ON_THE_CPU, "x")
            return
        study.figure("gpu_bytes_of_left_model", float(after - before), "byte", about)
        ways: dict[str, Callable[[], object]] = {"left on the CPU": left.step, "moved": moved.step}
        pair = study.variants(
            "ways", "one training step", ways, per_call=(batch, "samples/s"), clock="wall"
        )
        study.factor("speed_up_by_moving", pair[1].ratio, pair[1], "left over moved")

    def _wrong_half(study: Study, gpu: torch.device, left: torch.nn.Module) -> None:
        message = outcome(lambda: left(torch.empty(batch, FEATURES, device=gpu)))
        study.log_line(f"model on cpu, input on {gpu} -> {message}")
        if gpu.type == "meta":
            study.log_line(META)
        study.figure("input_alone_moved", message)

    return Case(moved.step, clock="wall", item=batch, check=check, study=study)
