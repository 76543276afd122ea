"""Automatic mixed precision: the same training step in float32, TF32, float16 and bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, one_of, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

FLOAT32, TF32, FLOAT16, BFLOAT16 = "float32", "tf32", "float16", "bfloat16"

MODELS = 2 * 4 + 2
"""Two per precision, for timing and for following the loss; the model on top, and one more."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compute a step."""

    name: str
    dtype: str | None = None
    """Type of autocast; ``None`` without it."""
    tf32: bool | None = None
    """Setting of TF32 meanwhile; ``None`` leaves it unchanged."""


def ways(device_type: str, capability: tuple[int, int] | None) -> tuple[Way, ...]:
    """Return the ways that a device supports, the plain one first.

    Args:
        device_type: cpu or cuda.
        capability: capability of a CUDA device; TF32 needs 8.0 (Ampere).
    """
    half = Way("float16 + GradScaler", FLOAT16), Way("bfloat16 autocast", BFLOAT16)
    if device_type != "cuda":
        return Way(FLOAT32), *half
    plain = Way("float32 (no TF32)", tf32=False)
    if capability is None or capability < (8, 0):
        return plain, *half
    return plain, Way(TF32, tf32=True), *half


@workload(
    group="training",
    title="automatic mixed precision (AMP)",
    about="The same CNN step in float32, in TF32 (GPUs from Ampere on), and under autocast in "
    "float16 and bfloat16. autocast picks the precision of each operation and keeps the weights "
    "float32. float16 has a narrow range, so GradScaler multiplies the loss and divides the "
    "gradients again; a step whose gradients overflowed is skipped, and the scale halved. "
    "torch.amp replaces torch.cuda.amp, and works on the CPU too.",
    look_for="samples/s and memory against float32: tensor cores need larger channels than a small "
    "model has, so raise width and batch. The losses should run side by side. Set scale to 24 to "
    "see steps skipped. bfloat16 has float32's range and needs no scaler. A CPU is faster only "
    "if it has instructions for the type (AVX512-BF16, AMX); without them it is often slower.",
    devices=("cpu", "cuda"),
    convolutions="some",
)
def amp(
    on: Place,
    dtype: Annotated[
        str, one_of((FLOAT16, BFLOAT16), "of autocast, for the time on top")
    ] = FLOAT16,
    batch: Annotated[int, whole(1, 65_536, "images in a batch")] = 32,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
    size: Annotated[int, whole(8, 512, "height and width of an image, pixels")] = 32,
    steps: Annotated[int, whole(1, 1000, "training steps to follow the loss")] = 12,
    scale: Annotated[int, whole(0, 60, "GradScaler's first scale is 2 to the power of it")] = 16,
) -> Case:
    import torch

    from workloads.catalog.shared.models import (
        cnn_bytes,
        cnn_flop,
        cnn_state_bytes,
        images_and_labels,
        peak_memory,
        small_cnn,
    )
    from workloads.declare.place import DTYPES
    from workloads.measure.float32 import tf32_set
    from workloads.scripts.amp import train_step

    step = cnn_bytes(batch, size, width)
    on.require(step + MODELS * cnn_state_bytes(width), "a batch and the models of all precisions")
    images, labels = images_and_labels(on, batch, size)
    loss_function = torch.nn.CrossEntropyLoss()

    def prepared(way: Way) -> tuple[Callable[[], torch.Tensor], torch.amp.GradScaler]:
        """Return a step with its own model, and its scaler, which acts only for float16."""
        model = small_cnn(width, device=on.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scaler = torch.amp.GradScaler(on.type, 2.0**scale, enabled=way.dtype == FLOAT16)
        autocast = None if way.dtype is None else DTYPES[way.dtype]
        step = partial(train_step, model, optimizer, scaler, images, labels, autocast)
        if way.tf32 is None:
            return step, scaler

        def switched() -> torch.Tensor:
            with tf32_set(way.tf32):
                return step()

        return switched, scaler

    capability = torch.cuda.get_device_capability(on.device) if on.type == "cuda" else None
    all_ways = ways(on.type, capability)

    def study(study: Study) -> None:
        calls = {way.name: prepared(way)[0] for way in all_ways}
        variants = study.compare(calls)
        study.table(
            "precisions", "speed and memory of a step",
            "precision", ("time", "s"), ("rate", "samples/s"), ("peak memory", "byte"),
            ("speed-up", "x"), "verdict",
        )  # fmt: skip
        for variant in variants:
            peak = peak_memory(on, study, calls[variant.name])
            rate = batch / variant.median_s
            study.row(
                "precisions", variant.name, variant.median_s, rate, peak, variant.ratio,
                variant.verdict,
            )  # fmt: skip
        _follow(study, {way.name: prepared(way) for way in all_ways}, steps)
        first, *later = small_cnn(width, device=on.device)
        between = first(images).detach().requires_grad_()
        loss_function(torch.nn.Sequential(*later)(between), labels).backward()
        assert between.grad is not None
        _underflow(study, between.grad, 2.0**scale)
        if on.type == "cpu":
            study.log_line("TF32 has a row on NVIDIA GPUs alone; tf32 shows to what a CPU rounds")

    chosen = next(way for way in all_ways if way.dtype == dtype)
    return Case(
        prepared(chosen)[0],
        clock="wall",
        flop=cnn_flop(batch, size, width),
        item=batch,
        precision=dtype,
        study=study,
    )


def _follow(
    study: Study,
    prepared: dict[str, tuple[Callable[[], torch.Tensor], torch.amp.GradScaler]],
    steps: int,
) -> None:
    """Train each way from the same start, and show the losses side by side."""
    losses: dict[str, list[float]] = {}
    study.table(
        "training", f"the first {steps} steps from the same weights",
        "precision", "loss after", ("against the first", "%"), "skipped steps", "scale at the end",
    )  # fmt: skip
    for name, (step, scaler) in prepared.items():
        losses[name], skipped = [], 0
        for _ in range(steps):
            before = scaler.get_scale()
            losses[name].append(float(step().detach()))
            # update() lowers the scale only after a skipped step.
            skipped += scaler.get_scale() < before
        last, first = losses[name][-1], next(iter(losses.values()))[-1]
        difference = 100 * (last / first - 1) if first else None
        used = scaler.is_enabled()
        scaled = (float(skipped), scaler.get_scale()) if used else (None, None)
        study.row("training", name, last, difference, *scaled)
    study.unavailable["tables.training.scale at the end"] = "only float16 needs a scaler"
    study.chart("loss", "loss step by step", "training step", *((name, "") for name in losses))
    for index in range(steps):
        study.point("loss", float(index + 1), *(line[index] for line in losses.values()))


def _underflow(study: Study, gradient: torch.Tensor, scale: float) -> None:
    """Add the share of a float32 gradient that float16 would round to zero, unscaled and scaled."""
    from workloads.declare.place import ratio

    nonzero = gradient != 0
    entries = float(nonzero.sum())
    for name, factor, label in (
        ("float16_underflow", 1.0, "unscaled"),
        ("float16_underflow_scaled", scale, f"scaled by {scale:g}"),
    ):
        lost = ratio(float(((gradient * factor).half().eq(0) & nonzero).sum()), entries)
        about = f"of the gradient of the first convolution's result that float16 makes 0, {label}"
        study.figure(name, 100 * lost, "%", about)
