"""The kernels of a training step, as the profiler of torch lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from workloads.catalog.shared.tools import (
    NO_DEVICE_ROWS,
    ProfilerRow,
    kernels,
    operators,
)
from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import DataColumn

if TYPE_CHECKING:
    from workloads.declare.place import Place


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
            "operators", f"{steps} steps by self {clock} time", DataColumn("operator"),
            DataColumn("calls"), DataColumn("self time", "s"), DataColumn("share", "%"),
            DataColumn("total time", "s"), DataColumn("self memory", "byte"),
        )  # fmt: skip
        everything = sum(row.self_s for row in chosen)
        for row in chosen:
            share = 100 * row.self_s / everything
            study.row(
                "operators", row.name, float(row.calls), row.self_s, share, row.total_s,
                float(row.memory),
            )  # fmt: skip
        if ran:
            _kernels(study, ran, steps)
        study.figure("operators", float(len(chosen)), "", "that took time of their own")
        study.variants("cost", "what recording costs", {"plain": unrecorded, "recorded": timed})

    return Case(timed, clock="wall", item=steps * batch, study=study)


def _kernels(study: Study, ran: list[ProfilerRow], steps: int) -> None:
    everything = sum(row.self_s for row in ran)
    study.table(
        "kernels", "the kernels and copies that they launched", DataColumn("kernel"),
        DataColumn("calls"), DataColumn("time", "s"), DataColumn("share", "%"),
    )  # fmt: skip
    for row in ran:
        share = 100 * row.self_s / everything
        study.row("kernels", row.name, float(row.calls), row.self_s, share)
    study.figure("device_time", everything, "s", f"of all kernels in {steps} steps")
