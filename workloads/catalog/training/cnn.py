"""Training steps of a small convolutional network, phase by phase and kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from workloads.catalog.shared.tools import NO_DEVICE_ROWS, ProfilerRow, kernels, operators
from workloads.declare.study import Study
from workloads.declare.workload import Case, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


PHASES = ("data", "forward", "backward", "optimizer")
SPLIT_STEPS = 15
KEPT_BATCHES = 4
"""Batches in the data set."""
CONTIGUOUS, CHANNELS_LAST = "contiguous", "channels_last"
DEPTH_FACTOR = 4
"""Consecutive layers increase the error of a single product by this factor."""


@workload(
    group="training",
    title="training step of a small CNN",
    about="A classifier of three convolutions with batch normalisation, trained by SGD with "
    "momentum: pick a batch in host memory, copy it, forward, cross-entropy, backward, optimizer. "
    "bfloat16 means autocast: weights stay float32, convolutions and products are bfloat16.",
    look_for="The split: backward does about twice the work of forward; a large share of data or "
    "optimizer is time that a faster GPU would not shorten. channels_last pays with bfloat16 or "
    "TF32 on tensor cores. Raise batch and width on a GPU: at the defaults it waits for launches.",
    convolutions="some",
)
def cnn_training(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "images in a batch")] = 32,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
    size: Annotated[int, whole(8, 512, "height and width of an image, pixels")] = 32,
    dtype: Annotated[
        str, one_of(("float32", "bfloat16"), "of the multiplications (bfloat16: autocast)")
    ] = "float32",
    layout: Annotated[
        str, one_of((CONTIGUOUS, CHANNELS_LAST), "order of images and weights in memory")
    ] = CONTIGUOUS,
) -> Case:
    import torch

    from workloads.catalog.shared.models import (
        cnn_bytes,
        cnn_flop,
        images_and_labels,
        small_cnn,
        split,
    )
    from workloads.declare.place import TOLERANCES, against_float64, precision
    from workloads.scripts.cnn_training import pick_batch, train_step

    dataset = KEPT_BATCHES * batch * 3 * size * size * 4
    on.require(cnn_bytes(batch, size, width), "the model and a batch", host=dataset)
    all_images, all_labels = images_and_labels(on, KEPT_BATCHES * batch, size, host=True)
    loss_function = torch.nn.CrossEntropyLoss()
    low = dtype == "bfloat16"
    formats = {CONTIGUOUS: torch.contiguous_format, CHANNELS_LAST: torch.channels_last}
    memory_format = formats[layout]

    def built(
        memory_format: torch.memory_format,
    ) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = small_cnn(width, device=on.device)
        model.to(memory_format=memory_format)  # type: ignore[call-overload]
        return model, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    model, optimizer = built(memory_format)

    def timed(
        model: torch.nn.Module = model,
        optimizer: torch.optim.Optimizer = optimizer,
        memory_format: torch.memory_format = memory_format,
    ) -> object:
        images, labels = pick_batch(all_images, all_labels, batch, on.device, memory_format)
        return train_step(model, optimizer, images, labels, torch.bfloat16 if low else None)

    def marked(mark: Callable[[], None]) -> None:
        """Run the timed step with a mark at the end of each phase."""
        images, labels = pick_batch(all_images, all_labels, batch, on.device, memory_format)
        mark()
        with torch.autocast(on.type, dtype=torch.bfloat16, enabled=low):
            loss = loss_function(model(images), labels)
        mark()
        optimizer.zero_grad()
        loss.backward()
        mark()
        optimizer.step()
        mark()

    def study(study: Study) -> None:
        with study.watched():
            seconds = split(on, marked, PHASES, SPLIT_STEPS)
        study.table("split", "where a step's time goes", "phase", ("time", "s"), ("share", "%"))
        whole_step = sum(seconds.values())
        for phase, second in seconds.items():
            study.row("split", phase, second, 100 * second / whole_step)
        ways = {name: partial(timed, *built(layout), layout) for name, layout in formats.items()}
        study.variants("layouts", f"layouts, {dtype}", ways, per_call=(batch, "samples/s"))
        count = sum(parameter.numel() for parameter in model.parameters())
        study.figure("parameters", float(count), "", "of the model")

    used = "bfloat16" if low else precision(on, "float32", "conv")

    def check() -> Check:
        fresh, _ = built(memory_format)
        images = all_images[:batch].to(on.device, memory_format=memory_format)
        with torch.no_grad(), torch.autocast(on.type, dtype=torch.bfloat16, enabled=low):
            scores = fresh(images)
        reference = _in_float64(small_cnn(width), all_images[:batch])
        tolerance = DEPTH_FACTOR * TOLERANCES[used]
        reference_name = "the untrained model's scores of a batch, in float64 on the CPU"
        return against_float64(scores, reference, tolerance, reference_name)

    return Case(
        timed,
        clock="wall",
        flop=cnn_flop(batch, size, width),
        item=batch,
        precision=used,
        check=check,
        study=study,
    )


def _in_float64(model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    import torch

    with torch.no_grad():
        return torch.as_tensor(model.double()(images.double()))


@workload(
    group="training",
    title="profiler table of a CNN step",
    about="torch.profiler records every operator of a few training steps of the small CNN: how "
    "often, how long by itself, how long with what it called, and the memory it took less what it "
    "freed. On a GPU by the time of the kernels that each launched, which have a table of their "
    "own; on the CPU by processor time.",
    look_for="Few rows hold most of the time: those are worth changing. Self time adds up to the "
    "whole, total time counts callers and callees alike. Recording costs time itself, so take "
    "shares from here and seconds from a run without it.",
    devices=("cpu", "cuda"),
    convolutions="some",
)
def profiler(
    on: Place,
    steps: Annotated[int, whole(1, 100, "training steps to record")] = 3,
    batch: Annotated[int, whole(1, 65_536, "images in a batch")] = 32,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
    size: Annotated[int, whole(8, 512, "height and width of an image, pixels")] = 32,
) -> Case:
    import torch
    from torch.profiler import ProfilerActivity, supported_activities

    from workloads.catalog.shared.models import cnn_bytes, images_and_labels, small_cnn
    from workloads.scripts.profiler import record

    on.require(cnn_bytes(batch, size, width), "the model and a batch")
    images, labels = images_and_labels(on, batch, size)
    model = small_cnn(width, device=on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss_function = torch.nn.CrossEntropyLoss()
    supported = supported_activities()
    device = on.type == "cuda" and ProfilerActivity.CUDA in supported
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device else [])]

    def step() -> None:
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def timed() -> Any:
        return record(step, steps, activities)

    def unrecorded() -> None:
        for _ in range(steps):
            step()

    def study(study: Study) -> None:
        averages = timed().key_averages()
        ran = kernels(averages) if device else []
        if on.type == "cuda" and not ran:
            reason = NO_DEVICE_ROWS if device else "this torch was built without CUDA profiling"
            study.absent("device_time", reason, "s", "of all kernels")
            study.log_line(f"by processor time instead: {reason}")
        chosen = operators(averages, device_time=bool(ran), device_memory=on.type == "cuda")
        clock = "device" if ran else "CPU"
        study.table(
            "operators", f"{steps} steps by self {clock} time",
            "operator", "calls", ("self time", "s"), ("share", "%"), ("total time", "s"),
            ("self memory", "byte"),
        )  # fmt: skip
        everything = sum(row.self_s for row in chosen)
        for row in chosen:
            share = 100 * row.self_s / everything
            study.row(
                "operators", row.name, float(row.calls), row.self_s, share, row.total_s,
                float(row.memory),
            )  # fmt: skip
        if ran:
            _add_kernels(study, ran, steps)
        study.figure("operators", float(len(chosen)), "", "that took time of their own")
        study.variants("cost", "what recording costs", {"plain": unrecorded, "recorded": timed})

    return Case(timed, clock="wall", item=steps * batch, study=study)


def _add_kernels(study: Study, ran: list[ProfilerRow], steps: int) -> None:
    everything = sum(row.self_s for row in ran)
    study.table(
        "kernels", "the kernels and copies that they launched",
        "kernel", "calls", ("time", "s"), ("share", "%"),
    )  # fmt: skip
    for row in ran:
        share = 100 * row.self_s / everything
        study.row("kernels", row.name, float(row.calls), row.self_s, share)
    study.figure("device_time", everything, "s", f"of all kernels in {steps} steps")
