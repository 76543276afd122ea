"""Convolutions: what cuDNN and oneDNN are asked to do."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.convolution.shared import NCHW, NHWC, memory_format
from workloads.declare.workload import Case, ParameterError, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

FORWARD, BOTH = "forward", "forward+backward"
DTYPES = ("float32", "bfloat16", "float16", "float64")


@workload(
    group="convolution",
    compared=True,
    title="convolution of an image",
    about="A convolution layer on square images, padded by half its kernel. As it stands, it is "
    "the first layer of an image classifier: 3 channels in, 64 out, 3 x 3, 224 x 224, float32.",
    look_for="What the backend switches do to it. On a GPU of capability 8.0 and later the "
    "multiplications of float32 are TF32 unless allow TF32 is off; the first call holds cuDNN's "
    "search when benchmark is on. Determinism often costs no time; forward and backward with "
    "dilation=2 is a known case where it has cost 10 times and more on a GPU. In 16 bits try "
    "layout=channels_last too. A single image is little work for a GPU, which then waits for "
    "launches: raise batch.",
)
def conv2d(
    on: Place,
    batch: Annotated[int, whole(1, 4096, "images")] = 1,
    channels_in: Annotated[int, whole(1, 4096, "channels of the image")] = 3,
    channels: Annotated[int, whole(1, 4096, "channels of the result")] = 64,
    size: Annotated[int, whole(3, 8192, "height and width, pixels")] = 224,
    kernel: Annotated[int, whole(1, 31, "height and width of the kernel")] = 3,
    stride: Annotated[int, whole(1, 16, "pixels from one place of the kernel to the next")] = 1,
    dilation: Annotated[int, whole(1, 16, "pixels between the kernel's own points")] = 1,
    groups: Annotated[int, whole(1, 4096, "of channels; must divide both numbers of them")] = 1,
    dtype: Annotated[str, one_of(DTYPES, "of the image and the weights")] = "float32",
    layout: Annotated[str, one_of((NCHW, NHWC), "how they lie in memory")] = NCHW,
    mode: Annotated[str, one_of((FORWARD, BOTH), "what is timed")] = FORWARD,
) -> Case:
    import torch

    from workloads.declare import flop, place
    from workloads.declare.checks import TOLERANCES, against_float64

    if channels_in % groups or channels % groups:
        raise ParameterError(
            f"conv2d: groups={groups}: must divide channels_in={channels_in} and "
            f"channels={channels}"
        )
    form = memory_format(layout)
    padding = dilation * (kernel - 1) // 2
    size_out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    numbers = batch * (channels_in * size**2 + channels * size_out**2)
    weights = channels * (channels_in // groups * kernel**2 + 1)
    both = mode == BOTH
    width = place.DTYPES[dtype].itemsize
    on.require(width * (numbers + weights) * (2 if both else 1), "the image and the result")

    def layer(device: torch.device) -> torch.nn.Conv2d:
        torch.manual_seed(place.SEED)
        made = torch.nn.Conv2d(
            channels_in, channels, kernel, stride, padding, dilation=dilation, groups=groups
        )
        made.to(device, place.DTYPES[dtype])
        # Module.to takes a layout too, which the types of torch do not tell.
        made.weight.data = made.weight.data.to(memory_format=form)
        return made

    conv = layer(on.device)
    image = on.randn(batch, channels_in, size, size, dtype=dtype).to(memory_format=form)
    gradient = None
    if both:
        gradient = on.randn(batch, channels, size_out, size_out, dtype=dtype)
        gradient = gradient.to(memory_format=form)

    def timed() -> object:
        result = conv(image)
        if gradient is not None:
            conv.zero_grad(set_to_none=True)
            result.backward(gradient)
        return result

    meta = torch.device("meta")
    forward = flop.count(lambda: layer(meta)(image.to(meta)))
    # cuDNN's convolutions use TF32 unless told not to; torch's own kernels do not.
    cudnn = torch.backends.cudnn
    used = place.precision(on, dtype, cudnn.enabled and cudnn.allow_tf32)

    def check() -> Check:
        with torch.no_grad():
            result = conv(image[:1])
            exact = copy.deepcopy(conv).to("cpu", torch.float64)
            reference = exact(image[:1].cpu().double())
        what = "the first image's result, in float64 on the CPU"
        return against_float64(result, reference, TOLERANCES[used], what)

    return Case(
        timed,
        # The weight's gradient takes as much as the way forward, the image needs none. torch's
        # counter is not asked: it counts the backward pass of groups as if there were none.
        flop=forward * (2 if both else 1),
        item=batch,
        precision=used,
        check=check,
    )
