"""What the convolutions share: memory layouts, and sizes left to the kind of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from workloads.declare.workload import by_device, whole

if TYPE_CHECKING:
    import torch

NCHW, NHWC = "NCHW", "channels_last"
BATCH, CHANNELS, SIZE = (4, 64), (32, 128), (28, 56)
"""On the CPU and on a GPU, where the small ones would time the launch."""
Batch = Annotated[int, whole(1, 4096, "images", auto=by_device(BATCH))]
Channels = Annotated[int, whole(1, 4096, "in and out", auto=by_device(CHANNELS))]
Size = Annotated[int, whole(1, 2048, "height and width, pixels", auto=by_device(SIZE))]


def memory_format(layout: str) -> torch.memory_format:
    """A layout as torch calls it."""
    import torch

    return torch.channels_last if layout == NHWC else torch.contiguous_format
