"""The optimizer's step: torch's for-loop, foreach and fused implementations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared.tools import NO_DEVICE_ROWS, kernels_of
from workloads.declare.study import Study
from workloads.declare.workload import Case, Skip, by_device, one_of, whole, workload
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

ADAMW, SGD = "adamw", "sgd"
FOR_LOOP, FOREACH, FUSED = "for-loop", "foreach", "fused"
WAYS: dict[str, dict[str, bool]] = {
    FOR_LOOP: {"foreach": False, "fused": False},
    FOREACH: {"foreach": True},
    FUSED: {"fused": True},
}
"""Arguments of torch's optimizers that choose the implementation."""

RATE, DECAY, EPSILON = 1e-3, 1e-2, 1e-8
BETAS = 0.9, 0.999
MOMENTUM = 0.9
SPREAD = 0.02
"""Standard deviation of the weights, as language models are initialized (GPT-2)."""

STATES = {ADAMW: 2, SGD: 1}
"""Tensors per parameter that the optimizer stores: both moments, or the momentum."""
PASSES = {ADAMW: 7, SGD: 5}
"""Tensors per parameter that a step must read or write. AdamW reads the parameter, the gradient and
both moments, and writes all but the gradient (Loshchilov, Hutter 2019, algorithm 2); SGD with
momentum has one moment (torch: ``torch.optim.SGD``)."""
CHECKED_STEPS = 3
WIDTHS = 256, 2048


@workload(
    group="training",
    title="optimizer step: for-loop, foreach, fused",
    about="One step of AdamW, or of SGD with momentum and weight decay, over a model's parameters. "
    "The for-loop updates a tensor at a time with several operations; foreach applies each "
    "operation to all tensors at once; fused does the whole update in one pass over memory.",
    look_for="Time and peak memory by implementation. foreach needs temporary memory as large as "
    "all parameters, the for-loop only a tensor or two, fused none. fused reads and writes each "
    "number once, so only it can come near the memory's rate; the for-loop waits for its many "
    "launches if the tensors are small.",
)
def optimizer_step(
    on: Place,
    optimizer: Annotated[str, one_of((ADAMW, SGD), "the optimizer")] = ADAMW,
    way: Annotated[
        str, one_of((FOR_LOOP, FOREACH, FUSED), "implementation of the time on top")
    ] = FUSED,
    layers: Annotated[int, whole(1, 1024, "layers: a matrix and a vector each")] = 24,
    width: Annotated[
        int, whole(1, 16_384, "rows and columns of a matrix", auto=by_device(WIDTHS))
    ] = 0,
) -> Case:
    from workloads.scripts.optimizer_step import step

    width = on.sizes(width=(width, WIDTHS))["width"]
    count = layers * (width * width + width)
    # Parameters, gradients, the states of all implementations, foreach's temporary tensors. The
    # check has its own copies of one layer.
    copies = 2 + len(WAYS) * STATES[optimizer] + 2
    check_layer = (width * width + width) * (3 + STATES[optimizer])
    on.require(
        4 * (copies * count + check_layer), f"{count:,} parameters and the optimizers' states"
    )
    parameters = _parameters(on, layers, width)

    def prepared(way: str) -> torch.optim.Optimizer:
        """Return an optimizer with its states in place.

        Raises:
            Skip: torch lacks this implementation here.
        """
        prepared_optimizer = _optimizer(optimizer, way, parameters)
        try:
            step(prepared_optimizer)
        except RuntimeError as error:
            raise Skip(f"{way}: does not run here: {first_line(error)}") from error
        return prepared_optimizer

    chosen = prepared(way)

    def study(study: Study) -> None:
        calls: dict[str, Callable[[], None]] = {}
        for name in WAYS:
            try:
                ready = chosen if name == way else prepared(name)
            except Skip as skip:
                study.log_line(str(skip))
            else:
                calls[name] = partial(step, ready)
        title = f"{optimizer}, {2 * layers} tensors, {count:,} parameters"
        _compare(study, on, title, calls, 4 * count, 4 * PASSES[optimizer] * count)
        about = "of the optimizer's own tensors, beside parameters and gradients"
        study.figure("states", 4.0 * STATES[optimizer] * count, "byte", about)

    def check() -> Check:
        return _check(on, optimizer, way, width)

    return Case(
        partial(step, chosen),
        clock="wall",
        byte=4 * PASSES[optimizer] * count,
        byte_limit="memory",
        chosen={"width": width},
        check=check,
        study=study,
    )


def _compare(
    study: Study,
    on: Place,
    title: str,
    calls: dict[str, Callable[[], None]],
    size: int,
    moved: int,
) -> None:
    """Add a table of the implementations.

    Args:
        study: the findings.
        on: the device.
        title: the table's title.
        calls: a step of each implementation.
        size: bytes of the parameters.
        moved: bytes that a step must read and write.
    """
    from workloads.catalog.shared.models import peak_memory

    variants = study.compare(calls)
    study.table(
        "ways", title,
        "implementation", ("time", "s"), ("rate", "byte/s"), ("peak memory", "byte"),
        ("of the parameters", "%"), "kernels", ("speed-up", "x"), "verdict",
    )  # fmt: skip
    for variant in variants:
        call = calls[variant.name]
        peak = peak_memory(on, study, call)
        share = None if peak is None else 100 * peak / size
        launched = sum(row.calls for row in kernels_of(call, on)) if on.type == "cuda" else 0
        if not launched:
            no_kernels = NO_DEVICE_ROWS if on.type == "cuda" else "the profiler counts CUDA's"
            study.unavailable["tables.ways.kernels"] = no_kernels
        study.row(
            "ways", variant.name, variant.median_s, moved / variant.median_s, peak, share,
            float(launched) if launched else None, variant.ratio, variant.verdict,
        )  # fmt: skip
        study.check_rate(variant.name, moved / variant.median_s)


def _parameters(on: Place, layers: int, width: int) -> list[torch.nn.Parameter]:
    """Return matrices and vectors with random gradients."""
    import torch

    parameters = []
    for _ in range(layers):
        for shape in ((width, width), (width,)):
            parameter = torch.nn.Parameter(on.randn(*shape).mul_(SPREAD))
            parameter.grad = on.randn(*shape)
            parameters.append(parameter)
    return parameters


def _optimizer(name: str, way: str, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    import torch

    options = WAYS[way]
    if name == ADAMW:
        return torch.optim.AdamW(
            parameters, lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY, **options
        )
    return torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, **options)


def _check(on: Place, optimizer: str, way: str, width: int) -> Check:
    """Compare the change of one layer after a few steps with the formula's, in float64."""
    import torch

    from workloads.declare.place import TOLERANCES, against_float64

    parameters = _parameters(on, 1, width)
    before = [parameter.detach().cpu().double() for parameter in parameters]
    slopes = [parameter.grad for parameter in parameters if parameter.grad is not None]
    gradients = [slope.cpu().double() for slope in slopes]
    stepper = _optimizer(optimizer, way, parameters)
    for _ in range(CHECKED_STEPS):
        stepper.step()
    update = adamw_by_formula if optimizer == ADAMW else sgd_by_formula
    expected = [
        update(start, gradient, CHECKED_STEPS) - start
        for start, gradient in zip(before, gradients, strict=True)
    ]
    changed = [
        parameter.detach().cpu().double() - start
        for parameter, start in zip(parameters, before, strict=True)
    ]
    return against_float64(
        torch.cat([tensor.flatten() for tensor in changed]),
        torch.cat([tensor.flatten() for tensor in expected]),
        TOLERANCES["float32"],
        f"the change of a layer in {CHECKED_STEPS} steps by the formula, in float64 on the CPU",
    )


def adamw_by_formula(start: torch.Tensor, gradient: torch.Tensor, steps: int) -> torch.Tensor:
    """Return a parameter after some steps with the same gradient (Loshchilov, Hutter 2019)."""
    parameter, first, second = start.clone(), 0 * start, 0 * start
    for step in range(1, steps + 1):
        parameter = parameter * (1 - RATE * DECAY)
        first = BETAS[0] * first + (1 - BETAS[0]) * gradient
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
        mean, spread = first / (1 - BETAS[0] ** step), second / (1 - BETAS[1] ** step)
        parameter = parameter - RATE * mean / (spread.sqrt() + EPSILON)
    return parameter


def sgd_by_formula(start: torch.Tensor, gradient: torch.Tensor, steps: int) -> torch.Tensor:
    """Return a parameter after some steps with the same gradient (torch: ``torch.optim.SGD``)."""
    parameter, momentum = start.clone(), 0 * start
    for _ in range(steps):
        momentum = MOMENTUM * momentum + gradient + DECAY * parameter
        parameter = parameter - RATE * momentum
    return parameter
