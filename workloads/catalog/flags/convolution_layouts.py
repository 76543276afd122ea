"""The effect of a convolution's memory layout, alone and within a block of layers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.flags.convolution_layers import (
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
from workloads.declare.workload import Case, ParameterError, by_device, whole, workload
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


def types(on: Place) -> dict[str, tuple[str, bool | None]]:
    """Return types by name: the dtype, and whether to allow TF32; ``None`` keeps the setting."""
    import torch

    from workloads.declare.place import supports_tf32

    halves: dict[str, tuple[str, bool | None]] = {
        "bfloat16": ("bfloat16", None),
        "float16": ("float16", None),
    }
    if not torch.backends.cudnn.enabled or not supports_tf32(on):
        return {"float32": ("float32", None), **halves}
    return {"float32, no TF32": ("float32", False), "TF32": ("float32", True), **halves}


@workload(
    group="flags",
    compared=True,
    title="memory layout and type of a convolution",
    about="One 3 x 3 convolution with its image and weight laid out as NCHW, channel by channel, "
    "and as channels_last, pixel by pixel, in float32, on a GPU that has TF32 without and with it, "
    "in bfloat16 and in float16. Timed: channels_last, float32.",
    look_for="Tensor cores read channels_last: in TF32 and in 16 bits NCHW costs a conversion in "
    "each call; float32 without TF32 does not run on them. Convert the weights and the image: "
    "where one of them is channels_last, torch converts the other in each call. On a CPU without "
    "16-bit products the short types are slower, not faster.",
    convolutions="only",
)
def conv_layouts(
    on: Place,
    batch: Batch = 0,
    channels: Channels = 0,
    size: Size = 0,
) -> Case:
    import torch

    from workloads.declare.place import DTYPES, TOLERANCES, against_float64, precision
    from workloads.measure.float32 import tf32_set
    from workloads.scripts.conv_layouts import convolve

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

    timed = partial(convolve, *laid_out(NHWC, "float32"))
    used = precision(on, "float32", "conv")

    def check() -> Check:
        reference = torch.nn.functional.conv2d(
            image[:1].cpu().double(), weight.cpu().double(), padding=1
        )
        reference_name = "the first image's result from NCHW, in float64 on the CPU"
        return against_float64(timed()[:1], reference, TOLERANCES[used], reference_name)

    flop = 2 * 9 * channels * numbers

    def study(study: Study) -> None:
        study.table(
            "grid", f"{batch} images, {channels} channels, {size}²",
            "type", (NCHW, "s"), (NHWC, "s"), ("speed-up", "x"), "interval", "verdict",
            ("best rate", "FLOP/s"),
        )  # fmt: skip
        for name, (dtype, tf32) in types(on).items():
            calls = {layout: partial(convolve, *laid_out(layout, dtype)) for layout in (NCHW, NHWC)}
            with tf32_set(tf32):
                plain, last = study.compare(calls)
            best = flop / min(plain.median_s, last.median_s)
            study.row(
                "grid", name, plain.median_s, last.median_s, last.ratio, last.interval,
                last.verdict, best,
            )  # fmt: skip

    return Case(
        timed, flop=flop, item=batch, precision=used, chosen=sizes, check=check, study=study
    )


BLOCK_BATCH, BLOCK_CHANNELS, BLOCK_SIZE = (4, 64), (32, 64), (56, 112)
"""Sizes on the CPU and on a GPU, where the small ones would time the launch."""
FEW_OPERATIONS = "a few operations for each number: its time is that of reading and writing them"
SMALLEST = 4
"""Smallest height and width that can be pooled."""


@workload(
    group="flags",
    title="a convolution block and its primitives",
    about="Convolution, batch norm, ReLU and max pooling as one block, then each by itself, with "
    "average pooling, a fully connected layer and an LSTM: what cuDNN, cuBLAS and oneDNN have "
    "kernels for.",
    look_for="Convolution, the fully connected layer and the LSTM multiply each number that they "
    "read many times. Batch norm, ReLU and pooling do a few operations for each, so that reading "
    "and writing memory decides their time: it is a larger share of the block than their part of "
    "the operations. Fusing them into the convolution saves that: the last table folds batch norm "
    "into the convolution's weights, as can be done once it is trained, and on a GPU has cuDNN "
    "apply ReLU in the same kernel.",
    convolutions="some",
)
def conv_block(
    on: Place,
    batch: Annotated[int, whole(1, 4096, "images", auto=by_device(BLOCK_BATCH))] = 0,
    channels: Annotated[int, whole(1, 4096, "in and out", auto=by_device(BLOCK_CHANNELS))] = 0,
    size: Annotated[
        int, whole(1, 2048, "height and width, pixels", auto=by_device(BLOCK_SIZE))
    ] = 0,
) -> Case:
    import torch

    from workloads.declare.place import SEED, precision
    from workloads.scripts.conv_block import run

    sizes = on.sizes(
        batch=(batch, BLOCK_BATCH), channels=(channels, BLOCK_CHANNELS), size=(size, BLOCK_SIZE)
    )
    batch, channels, size = sizes.values()
    if size < SMALLEST:
        raise ParameterError(f"conv_block: size={size}: 0 or from {SMALLEST} on, as it is pooled")
    numbers = batch * channels * size**2
    on.require(4 * 6 * numbers + 4 * 30 * channels**2, "the block's images")
    torch.manual_seed(SEED)
    conv = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False).to(on.device)
    norm = torch.nn.BatchNorm2d(channels).to(on.device)
    relu, pool, average = torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.AvgPool2d(2)
    linear = torch.nn.Linear(channels, channels).to(on.device)
    lstm = torch.nn.LSTM(channels, channels).to(on.device)
    image = on.randn(batch, channels, size, size)
    sequence = on.randn(size, batch, channels)
    pixels = on.randn(batch * size**2, channels)

    timed = partial(run, torch.nn.Sequential(conv, norm, relu, pool), image)

    def quiet(call: Callable[[], object]) -> Callable[[], object]:
        return torch.no_grad()(call)

    product = 2 * channels * numbers
    calls: dict[str, tuple[int | None, int, Callable[[], object]]] = {
        "convolution 3x3": (9 * product, 2 * numbers, lambda: conv(image)),
        "batch norm, training": (None, 2 * numbers, lambda: norm(image)),
        "ReLU": (None, 2 * numbers, lambda: relu(image)),
        "max pooling 2x2": (None, 5 * numbers // 4, lambda: pool(image)),
        "average pooling 2x2": (None, 5 * numbers // 4, lambda: average(image)),
        "fully connected": (product, 2 * numbers, lambda: linear(pixels)),
        f"LSTM, {size} steps": (
            16 * size * batch * channels**2, 2 * size * batch * channels, lambda: lstm(sequence)
        ),
    }  # fmt: skip

    def study(study: Study) -> None:
        study.table(
            "primitives", f"{batch} images, {channels} channels, {size}²",
            "primitive", ("time", "s"), ("rate", "FLOP/s"), ("in and out", "byte/s"),
        )  # fmt: skip
        study.unavailable["tables.primitives.rate"] = FEW_OPERATIONS
        for name, (flop, values, call) in calls.items():
            seconds = study.time(quiet(call))
            rate = None if flop is None else flop / seconds
            study.row("primitives", name, seconds, rate, 4 * values / seconds)
        with torch.no_grad():
            _fusion(study, on, conv, norm, image)

    used = precision(on, "float32", "conv")
    return Case(timed, flop=9 * product, item=batch, precision=used, chosen=sizes, study=study)


def _fusion(
    study: Study, on: Place, conv: torch.nn.Conv2d, norm: torch.nn.BatchNorm2d, image: torch.Tensor
) -> None:
    """Compare convolution, batch norm and ReLU in evaluation, in separate and in fused kernels."""
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    conv, norm = copy.deepcopy(conv).eval(), copy.deepcopy(norm).eval()
    folded = fuse_conv_bn_eval(conv, norm)
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "convolution, batch norm, ReLU": lambda: norm(conv(image)).relu_(),
        "batch norm folded": lambda: folded(image).relu_(),
    }
    name, cudnn = "batch norm folded, ReLU in the kernel", torch.backends.cudnn
    if on.type != "cuda" or not cudnn.enabled:
        study.log_line(f"{name}: n/a, it is tried with cuDNN alone")
    else:

        def in_one_kernel() -> torch.Tensor:
            ones = (1, 1)
            return torch.cudnn_convolution_relu(
                image, folded.weight, folded.bias, ones, ones, ones, folded.groups
            )

        try:
            in_one_kernel()
        except RuntimeError as error:
            study.log_line(f"{name}: n/a, {first_line(error)}")
        else:
            ways[name] = in_one_kernel
    first = ways["convolution, batch norm, ReLU"]()
    off = max(float((way() - first).abs().max() / first.abs().max()) for way in ways.values())
    study.figure("fusing_error", off, "", "largest difference by fusing, over the largest entry")
    study.variants("fusion", "convolution, batch norm and ReLU in evaluation", ways)
