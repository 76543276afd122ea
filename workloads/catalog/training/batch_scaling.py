"""Batch after batch twice as large: where throughput stops to grow, and what memory it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, Skip, whole, workload
from workloads.protocol.results import Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

LONGEST_STEP_S = 0.05
"""A larger batch is not tried where a step has come to take this long."""
FEWEST = 8
"""Up to this batch all are tried, however slow the machine."""
GROWTH = 1.1
"""Twice the batch has to bring at least this much more throughput."""


@workload(
    group="training",
    title="batch size against throughput and memory",
    about="The same CNN with batch after batch twice as large: samples per second and the memory "
    "that a step needs on top of model and data. It ends before the free memory would, and where "
    f"a step takes longer than {LONGEST_STEP_S:g} s.",
    look_for="Throughput grows as long as the device has idle units, then stays flat, while memory "
    "doubles with each doubling: beyond the bend a larger batch only takes memory. A GPU bends "
    "late, a CPU early.",
)
def batch_scaling(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "batch of the time on top")] = 16,
    largest: Annotated[int, whole(1, 1_048_576, "largest batch to try")] = 16_384,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
    size: Annotated[int, whole(8, 512, "height and width of an image, pixels")] = 32,
) -> Case:
    import torch

    from workloads.catalog.training.shared_models import (
        cnn_bytes,
        cnn_flop,
        images_and_labels,
        small_cnn,
    )
    from workloads.catalog.training.shared_tensors import peak_memory
    from workloads.declare.place import precision

    on.require(cnn_bytes(batch, size, width), f"the model and a batch of {batch}")
    model = small_cnn(width, device=on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss_function = torch.nn.CrossEntropyLoss()
    images, labels = images_and_labels(on, batch, size)

    def timed(images: torch.Tensor = images, labels: torch.Tensor = labels) -> object:
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def step_of(count: int) -> Callable[[], object]:
        images, labels = images_and_labels(on, count, size)
        return lambda: timed(images, labels)

    def study(found: Study) -> None:
        rates = ("samples/s", "samples/s"), ("peak memory", "byte"), ("step", "s")
        found.chart("scaling", "throughput and memory over the batch", "batch", *rates)
        found.table(
            "scaling", "batch after batch", Column("batch"),
            *(Column(name, unit) for name, unit in rates),
        )  # fmt: skip
        measured: dict[int, float] = {}
        count, ended = 1, f"largest={largest}: not tried beyond it"
        while count <= largest:
            try:
                on.require(cnn_bytes(count, size, width), f"a batch of {count}")
            except Skip as skip:
                ended = str(skip)
                break
            step = step_of(count)
            seconds = found.time(step)
            peak = peak_memory(on, found, step)
            measured[count] = count / seconds
            found.row("scaling", float(count), count / seconds, peak, seconds)
            found.point("scaling", float(count), count / seconds, peak, seconds)
            if seconds > LONGEST_STEP_S and count >= FEWEST:
                ended = f"a step of {count} takes more than {LONGEST_STEP_S:g} s"
                break
            count *= 2
        found.say(f"ended: {ended}")
        found.mark("scaling", bend(measured))

    cudnn = torch.backends.cudnn
    return Case(
        timed,
        clock="wall",
        flop=cnn_flop(batch, size, width),
        item=batch,
        precision=precision(on, "float32", cudnn.enabled and cudnn.allow_tf32),
        study=study,
    )


def bend(rates: dict[int, float]) -> str:
    """Where throughput stops to grow, in words.

    Args:
        rates: samples/s by batch, batches doubling.
    """
    batches = sorted(rates)
    best = max(batches, key=rates.__getitem__)
    enough = next(batch for batch in batches if GROWTH * rates[batch] >= rates[best])
    if enough == batches[-1]:
        return f"throughput still grows at a batch of {enough}, the largest that was tried"
    return (
        f"a batch of {enough} reaches {rates[enough] / rates[best]:.0%} of the highest throughput; "
        "larger ones take more memory and bring little or nothing"
    )
