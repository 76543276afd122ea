"""The memory of a training step's batch, and how to train with more than fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, Skip, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.catalog.shared.models import Norm
    from workloads.declare.place import Place

DIVISIONS = (1, 2, 4, 8)
"""Numbers of micro-batches in a batch."""
KEPT_PER_LAYER = 3
"""Inputs per layer of the deep perceptron, one per part, kept for the backward pass."""
DEPTH_FACTOR = 4
"""Consecutive layers increase the error of a single product by this factor."""


@workload(
    group="training",
    title="one step from several small batches",
    about="A batch that does not fit is split into micro-batches: backward adds to the gradients, "
    "and the optimizer steps once at the end. Each loss is weighted by its share of the batch. The "
    "CNN normalises within each sample (GroupNorm): BatchNorm would see other batches.",
    look_for="Peak memory falls with the micro-batch, and so does throughput once a micro-batch no "
    "longer fills the device. The gradients agree with the full batch's except for rounding; with "
    "BatchNorm they do not.",
    convolutions="some",
)
def gradient_accumulation(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "effective batch")] = 64,
    micro: Annotated[int, whole(1, 65_536, "micro-batch of the time on top")] = 16,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
    size: Annotated[int, whole(8, 512, "height and width of an image, pixels")] = 32,
) -> Case:
    import torch

    from workloads.catalog.shared.models import (
        cnn_bytes,
        cnn_flop,
        difference_and_largest,
        gradients,
        images_and_labels,
        largest_difference,
        peak_memory,
        small_cnn,
    )
    from workloads.declare.place import TOLERANCES, precision, relative
    from workloads.scripts.gradient_accumulation import accumulate

    on.require(cnn_bytes(batch, size, width), f"the model and a batch of {batch}")
    images, labels = images_and_labels(on, batch, size)
    loss_function = torch.nn.CrossEntropyLoss()
    model = small_cnn(width, "group", on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def timed(micro: int = micro) -> None:
        accumulate(model, optimizer, images, labels, micro)

    def accumulated(norm: Norm, micro: int) -> list[torch.Tensor]:
        """Return the gradients at the untrained weights."""
        model = small_cnn(width, norm, on.device)
        for some_images, some_labels in zip(images.split(micro), labels.split(micro), strict=True):
            loss = loss_function(model(some_images), some_labels)
            (loss * (len(some_images) / batch)).backward()
        return gradients(model)

    def difference(norm: Norm, micro: int) -> float:
        return largest_difference(accumulated(norm, micro), accumulated(norm, batch))

    def study(study: Study) -> None:
        sizes = {batch // parts: parts for parts in DIVISIONS if batch % parts == 0}
        calls = {str(size): partial(timed, size) for size in sizes}
        variants = study.compare(calls)
        study.table(
            "micro_batches", f"a batch of {batch} in parts",
            "micro-batch", "parts", ("time", "s"), ("rate", "samples/s"), ("peak memory", "byte"),
            ("speed-up", "x"), "verdict", "gradient difference",
        )  # fmt: skip
        for variant, (size, parts) in zip(variants, sizes.items(), strict=True):
            peak = peak_memory(on, study, calls[variant.name])
            study.row(
                "micro_batches", float(size), float(parts), variant.median_s,
                batch / variant.median_s, peak, variant.ratio, variant.verdict,
                difference("group", size),
            )  # fmt: skip
        smallest = min(sizes)
        if smallest < batch:
            about = f"of the gradients with micro-batches of {smallest}, over the largest entry"
            name = "gradient_difference_batch_norm"
            study.figure(name, difference("batch", smallest), "", about)

    used = precision(on, "float32", "conv")

    def check() -> Check:
        difference = difference_and_largest(
            accumulated("group", micro), accumulated("group", batch)
        )
        tolerance = DEPTH_FACTOR * TOLERANCES[used]
        return relative(*difference, tolerance, "the gradients of the undivided batch")

    return Case(
        timed,
        clock="wall",
        flop=cnn_flop(batch, size, width),
        item=batch,
        precision=used,
        check=check,
        study=study,
    )


@workload(
    group="training",
    title="activations computed again in backward",
    about="A deep perceptron is cut into segments: only what enters a segment is stored, and the "
    "rest is computed again when backward reaches it (torch.utils.checkpoint, "
    "use_reentrant=False). The last segment is not checkpointed: its backward pass follows at "
    "once.",
    look_for="Memory falls by much more than time rises: recomputing costs up to one more forward "
    "pass, about a third of a step. s segments keep s inputs, and while one is computed again, the "
    f"{KEPT_PER_LAYER} tensors of each of its layers: the sum is least near the square root of "
    f"{KEPT_PER_LAYER} times the layers, 7 segments for 16 layers. The gradients are compared with "
    "those without checkpoints.",
)
def checkpointing(
    on: Place,
    segments: Annotated[int, whole(2, 64, "segments of the time on top")] = 4,
    layers: Annotated[int, whole(4, 64, "layers of the model")] = 16,
    width: Annotated[int, whole(8, 8192, "features of each layer")] = 64,
    batch: Annotated[int, whole(1, 1_048_576, "samples")] = 4096,
) -> Case:
    import torch

    from workloads.catalog.shared.models import (
        deep_mlp,
        difference_and_largest,
        gradients,
        peak_memory,
    )
    from workloads.declare.place import TOLERANCES, count_flop, precision, relative
    from workloads.scripts.checkpointing import checkpointed_step, plain_step

    if segments > layers:
        raise ParameterError(f"checkpointing: segments={segments}: at most layers={layers}")
    # Each layer keeps the inputs of its three parts, and the mean and spread of each sample; beside
    # these are the last result, its square, and gradients that pass by.
    activations = batch * ((3 * layers + 6) * width + 2 * layers)
    # Weights and gradients, and in the check two copies of these.
    parameters = 4 * layers * (width**2 + 3 * width)
    on.require(4 * (activations + parameters), "the model and its activations")
    model = deep_mlp(on, layers, width)
    samples = on.randn(batch, width)

    def timed(segments: int = segments) -> None:
        checkpointed_step(model, samples, segments)

    def plainly() -> None:
        plain_step(model, samples)

    def study(study: Study) -> None:
        counts = [count for count in (2, 4, 8, 16, 32, 64) if count <= layers]
        calls = {"no checkpoints": plainly} | {
            f"{count} segments": partial(timed, count) for count in counts
        }
        variants = study.compare(calls)
        study.table(
            "segments", f"{layers} layers, a batch of {batch}",
            "variant", ("time", "s"), ("more time", "%"), "verdict", ("peak memory", "byte"),
            ("less memory", "%"),
        )  # fmt: skip
        most: int | None = None
        for variant in variants:
            peak = peak_memory(on, study, calls[variant.name])
            most = peak if variant.name == "no checkpoints" else most
            saved = None if not most or peak is None else 100 * (1 - peak / most)
            more = 100 * (1 / variant.ratio - 1)
            study.row(
                "segments", variant.name, variant.median_s, more, variant.verdict, peak, saved
            )

    def check() -> Check:
        timed()
        plain = gradients(model)
        plainly()
        difference = difference_and_largest(plain, gradients(model))
        return relative(*difference, TOLERANCES[used], "the gradients without checkpoints")

    def on_meta() -> None:
        meta = torch.nn.Linear(width, width, device="meta")
        data = torch.empty(batch, width, device="meta", requires_grad=True)
        meta(data).sum().backward()

    used = precision(on, "float32", "matmul")
    # The first product's input has a gradient too: the first LayerNorm learns from it.
    # Recomputing is the price and does not count as work.
    operations = layers * count_flop(on_meta)
    return Case(
        timed, clock="wall", flop=operations, item=batch, precision=used, check=check, study=study
    )


LONGEST_STEP_S = 0.05
"""Step time beyond which no larger batch is tried."""
TRIED_IN_ANY_CASE = 8
"""Largest batch that is tried on any machine, however slow."""
LEAST_GROWTH = 1.1
"""Least throughput gain from doubling the batch."""


@workload(
    group="training",
    title="batch size against throughput and memory",
    about="The same CNN with batch after batch twice as large: samples per second and the memory "
    "that a step needs on top of model and data. It ends before the free memory would, and where "
    f"a step takes longer than {LONGEST_STEP_S:g} s.",
    look_for="Throughput grows as long as the device has idle units, then stays flat, while memory "
    "doubles with each doubling: beyond the bend a larger batch only takes memory. A GPU bends "
    "late, a CPU early.",
    convolutions="some",
)
def batch_scaling(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "batch of the time on top")] = 16,
    largest: Annotated[int, whole(1, 1_048_576, "largest batch to try")] = 16_384,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
    size: Annotated[int, whole(8, 512, "height and width of an image, pixels")] = 32,
) -> Case:
    import torch

    from workloads.catalog.shared.models import (
        cnn_bytes,
        cnn_flop,
        images_and_labels,
        peak_memory,
        small_cnn,
    )
    from workloads.declare.place import precision
    from workloads.scripts.batch_scaling import train_step

    on.require(cnn_bytes(batch, size, width), f"the model and a batch of {batch}")
    model = small_cnn(width, device=on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def step_of(count: int) -> Callable[[], object]:
        return partial(train_step, model, optimizer, *images_and_labels(on, count, size))

    def study(study: Study) -> None:
        rates = ("samples/s", "samples/s"), ("peak memory", "byte"), ("step", "s")
        study.chart("scaling", "throughput and memory over the batch", "batch", *rates)
        study.table("scaling", "batch after batch", "batch", *rates)
        measured: dict[int, float] = {}
        count, ended = 1, f"largest={largest}: not tried beyond it"
        while count <= largest:
            try:
                on.require(cnn_bytes(count, size, width), f"a batch of {count}")
            except Skip as skip:
                ended = str(skip)
                break
            step = step_of(count)
            seconds = study.time(step)
            peak = peak_memory(on, study, step)
            measured[count] = count / seconds
            study.row("scaling", float(count), count / seconds, peak, seconds)
            study.point("scaling", float(count), count / seconds, peak, seconds)
            if seconds > LONGEST_STEP_S and count >= TRIED_IN_ANY_CASE:
                ended = f"a step of {count} takes more than {LONGEST_STEP_S:g} s"
                break
            count *= 2
        study.log_line(f"ended: {ended}")
        study.mark("scaling", bend(measured))

    return Case(
        step_of(batch),
        clock="wall",
        flop=cnn_flop(batch, size, width),
        item=batch,
        precision=precision(on, "float32", "conv"),
        study=study,
    )


def bend(rates: dict[int, float]) -> str:
    """Describe where throughput stops growing.

    Args:
        rates: samples/s by batch, batches doubling.
    """
    batches = sorted(rates)
    best = max(batches, key=rates.__getitem__)
    enough = next(batch for batch in batches if LEAST_GROWTH * rates[batch] >= rates[best])
    if enough == batches[-1]:
        return f"throughput still grows at a batch of {enough}, the largest that was tried"
    return (
        f"a batch of {enough} reaches {rates[enough] / rates[best]:.0%} of the highest throughput; "
        "larger ones take more memory and bring little or nothing"
    )
