"""Torch's tools on a training step: torch.compile, and the profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from workloads.catalog.shared.tools import (
    NO_DEVICE_ROWS,
    ProfilerRow,
    compiling_cold,
    kernels,
    operators,
)
from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, one_of, whole, workload
from workloads.protocol.results import Check, DataColumn

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

FORWARD, TRAINING = "forward", "training step"
DEPTH_FACTOR = 8
"""Consecutive products of a block increase the error of a single one by this factor."""


@workload(
    group="flags",
    title="transformer block with torch.compile",
    about="A transformer block (causal attention and a perceptron, pre-LN) as Python calls it, and "
    "compiled: torch.compile traces it, fuses what lies between the products and has Triton (GPU) "
    "or a C++ compiler (CPU) build the kernels. Its cache on disk is set aside, so the first call "
    "is a cold one.",
    look_for="The first call takes seconds, each later one less than before; break-even says after "
    "how many calls the compilation has paid. A short job, or one whose shapes keep changing, "
    "never gets there. mode=training step compiles the backward pass too, and takes longer.",
    devices=("cpu", "cuda"),
    needs=("a C++ compiler", "Triton"),
)
def transformer_compile(
    on: Place,
    mode: Annotated[str, one_of((FORWARD, TRAINING), "what is compiled and timed")] = FORWARD,
    batch: Annotated[int, whole(1, 4096, "sequences")] = 4,
    layers: Annotated[int, whole(1, 128, "blocks after one another")] = 1,
    length: Annotated[int, whole(2, 32_768, "tokens of a sequence")] = 128,
    width: Annotated[int, whole(8, 16_384, "features of a token")] = 128,
    heads: Annotated[int, whole(1, 256, "heads of the attention; they divide the width")] = 4,
) -> Case:
    import torch

    from workloads.catalog.shared.models import TransformerBlock, transformer_flop
    from workloads.declare.place import SEED, TOLERANCES, against_float64, attention_precision
    from workloads.scripts.transformer_compile import forward, train_step

    if width % heads:
        raise ParameterError(f"transformer_compile: heads={heads} do not divide width={width}")
    tokens_bytes = 4 * batch * length * width
    each = 20 * tokens_bytes + 4 * 12 * width**2 * 4
    on.require(layers * each, "the blocks and their activations")

    def blocks(device: torch.device | str) -> torch.nn.Sequential:
        torch.manual_seed(SEED)
        return torch.nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers))).to(
            device
        )

    model = blocks(on.device)
    tokens = on.randn(batch, length, width)
    back = compiling_cold()
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(model)
    backward = mode == TRAINING
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def timed(model: Callable[[torch.Tensor], torch.Tensor] = compiled) -> object:
        if backward:
            return train_step(model, optimizer, tokens)
        return forward(model, tokens)

    def study(found: Study) -> None:
        ways = {"eager": lambda: timed(model), "compiled": timed}
        eager, fast = found.variants(
            "ways", mode, ways, per_call=(batch * length, "tokens/s"), peaks=True
        )
        cold = found.first_call_s
        assert cold is not None
        about = "the first call, with tracing and compiling; nothing was in the cache"
        found.figure("cold_compile", cold, "s", about)
        about = "calls after which the compilation has paid"
        if fast.verdict != "faster":
            word = fast.verdict if fast.verdict != "unclear" else "not clearly faster"
            reason = f"the compiled {'block is' if layers == 1 else 'blocks are'} {word}"
            found.absent("break_even_calls", reason, "", about)
            return
        saved = eager.median_s - fast.median_s
        found.figure("break_even_calls", (cold - eager.median_s) / saved, "", about)

    used = attention_precision(on, "float32")

    def check() -> Check:
        with torch.no_grad():
            reference = blocks("cpu").double()(tokens[:1].cpu().double())
            # The weights of a training step have moved on, by a millionth of their gradients.
            result = compiled(tokens)[:1]
        tolerance = layers * DEPTH_FACTOR * TOLERANCES[used]
        what = "the first sequence's result, uncompiled, in float64 on the CPU"
        return against_float64(result, reference, tolerance, what)

    return Case(
        timed,
        clock="wall",
        flop=layers * transformer_flop(batch, length, width, heads, backward=backward),
        item=batch,
        precision=used,
        check=check,
        study=study,
        cleanup=back,
    )


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

    def study(found: Study) -> None:
        averages = timed().key_averages()
        ran = kernels(averages) if device else []
        if on.type == "cuda" and not ran:
            reason = NO_DEVICE_ROWS if device else "this torch was built without CUDA profiling"
            found.absent("device_time", reason, "s", "of all kernels")
            found.say(f"by processor time instead: {reason}")
        chosen = operators(averages, device_time=bool(ran), device_memory=on.type == "cuda")
        clock = "device" if ran else "CPU"
        found.table(
            "operators", f"{steps} steps by self {clock} time", DataColumn("operator"),
            DataColumn("calls"), DataColumn("self time", "s"), DataColumn("share", "%"),
            DataColumn("total time", "s"), DataColumn("self memory", "byte"),
        )  # fmt: skip
        everything = sum(row.self_s for row in chosen)
        for row in chosen:
            share = 100 * row.self_s / everything
            found.row(
                "operators", row.name, float(row.calls), row.self_s, share, row.total_s,
                float(row.memory),
            )  # fmt: skip
        if ran:
            _kernels(found, ran, steps)
        found.figure("operators", float(len(chosen)), "", "that took time of their own")
        found.variants("cost", "what recording costs", {"plain": unrecorded, "recorded": timed})

    return Case(timed, clock="wall", item=steps * batch, study=study)


def _kernels(found: Study, ran: list[ProfilerRow], steps: int) -> None:
    everything = sum(row.self_s for row in ran)
    found.table(
        "kernels", "the kernels and copies that they launched", DataColumn("kernel"),
        DataColumn("calls"), DataColumn("time", "s"), DataColumn("share", "%"),
    )  # fmt: skip
    for row in ran:
        share = 100 * row.self_s / everything
        found.row("kernels", row.name, float(row.calls), row.self_s, share)
    found.figure("device_time", everything, "s", f"of all kernels in {steps} steps")
