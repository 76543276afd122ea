"""Memory layouts of a convolution, by type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from workloads.catalog.convolution.shared import (
    BATCH,
    CHANNELS,
    NCHW,
    NHWC,
    SIZE,
    Batch,
    Channels,
    Size,
    memory_format,
)
from workloads.declare.study import Study
from workloads.declare.workload import Case, workload
from workloads.protocol.results import Check, Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


def types(on: Place) -> dict[str, tuple[str, bool | None]]:
    """The types by name: of the numbers, and whether TF32 is allowed; ``None``: as it is set."""
    import torch

    from workloads.declare.place import precision

    halves: dict[str, tuple[str, bool | None]] = {
        "bfloat16": ("bfloat16", None),
        "float16": ("float16", None),
    }
    if not torch.backends.cudnn.enabled or precision(on, "float32", True) != "tf32":
        return {"float32": ("float32", None), **halves}
    return {"float32, no TF32": ("float32", False), "TF32": ("float32", True), **halves}


@contextmanager
def tf32_set(allowed: bool | None) -> Iterator[None]:
    """Allow cuDNN TF32 or forbid it, and set it back; ``None`` leaves it as it is."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32
    if allowed is not None:
        cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        if allowed is not None:
            cudnn.allow_tf32 = before


@workload(
    group="convolution",
    compared=True,
    title="memory layout and type of a convolution",
    about="One 3 x 3 convolution with its image and weight laid out as NCHW, channel by channel, "
    "and as channels_last, pixel by pixel, in float32, on a GPU that has TF32 without and with it, "
    "in bfloat16 and in float16. Timed: channels_last, float32.",
    look_for="Tensor cores read channels_last: NCHW in TF32 and in 16 bits pays for being turned "
    "round in each call; float32 without TF32 does not run on them. Convert the weights and the "
    "image: where one of them is channels_last, torch converts the other in each call. On a CPU "
    "without 16-bit products the short types are slower, not faster.",
)
def conv_layouts(
    on: Place,
    batch: Batch = 0,
    channels: Channels = 0,
    size: Size = 0,
) -> Case:
    import torch

    from workloads.declare.checks import TOLERANCES, against_float64
    from workloads.declare.place import DTYPES, precision

    sizes = on.sizes(batch=(batch, BATCH), channels=(channels, CHANNELS), size=(size, SIZE))
    batch, channels, size = sizes.values()
    numbers = batch * channels * size**2
    # The image as it is drawn, as it is timed, and in both layouts; the result, and a copy that the
    # library turns round.
    on.require(4 * 6 * (numbers + 9 * channels**2), "the image in both layouts and its result")
    image, weight = on.randn(batch, channels, size, size), on.randn(channels, channels, 3, 3)

    def laid_out(layout: str, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
        form = memory_format(layout)
        x = image.to(DTYPES[dtype], memory_format=form)
        return x, weight.to(DTYPES[dtype], memory_format=form)

    x, w = laid_out(NHWC, "float32")

    def timed(x: torch.Tensor = x, w: torch.Tensor = w) -> torch.Tensor:
        # x = x.to(memory_format=torch.channels_last), and the same of the weight
        return torch.nn.functional.conv2d(x, w, padding=1)

    cudnn = torch.backends.cudnn
    used = precision(on, "float32", cudnn.enabled and cudnn.allow_tf32)

    def check() -> Check:
        reference = torch.nn.functional.conv2d(
            image[:1].cpu().double(), weight.cpu().double(), padding=1
        )
        what = "the first image's result from NCHW, in float64 on the CPU"
        return against_float64(timed()[:1], reference, TOLERANCES[used], what)

    flop = 2 * 9 * channels * numbers

    def study(found: Study) -> None:
        found.table(
            "grid", f"{batch} images, {channels} channels, {size}²", Column("type"),
            Column(NCHW, "s"), Column(NHWC, "s"), Column("speed-up", "x"), Column("interval"),
            Column("verdict"), Column("best rate", "FLOP/s"),
        )  # fmt: skip
        for name, (dtype, allow_tf32) in types(on).items():
            calls = {layout: partial(timed, *laid_out(layout, dtype)) for layout in (NCHW, NHWC)}
            with tf32_set(allow_tf32):
                plain, last = found.compare(calls)
            best = flop / min(plain.median_s, last.median_s)
            found.row(
                "grid", name, plain.median_s, last.median_s, last.ratio, last.interval,
                last.verdict, best,
            )  # fmt: skip

    return Case(
        timed, flop=flop, item=batch, precision=used, chosen=sizes, check=check, study=study
    )
