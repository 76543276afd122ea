"""Convolutions as in networks: a single one, and a ResNet-50's."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import NamedColumn, Study
from workloads.declare.workload import Case, ParameterError, by_device, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

NCHW, NHWC = "NCHW", "channels_last"
BATCH, CHANNELS, SIZE = (4, 64), (32, 128), (28, 56)
"""Sizes on the CPU and on a GPU, where the small ones would time the launch."""
Batch = Annotated[int, whole(1, 4096, "images", auto=by_device(BATCH))]
Channels = Annotated[int, whole(1, 4096, "in and out", auto=by_device(CHANNELS))]
Size = Annotated[int, whole(1, 2048, "height and width, pixels", auto=by_device(SIZE))]


def memory_format(layout: str) -> torch.memory_format:
    """Return torch's memory format for a layout."""
    import torch

    return torch.channels_last if layout == NHWC else torch.contiguous_format


FORWARD, BOTH = "forward", "forward+backward"
DTYPES = ("float32", "bfloat16", "float16", "float64")


@workload(
    group="flags",
    compared=True,
    title="convolution of an image",
    about="A convolution layer on square images, padded by half its kernel. By default it is the "
    "first layer of an image classifier: 3 channels in, 64 out, 3 x 3, 224 x 224, float32.",
    look_for="What the backend switches do to it. On a GPU of capability 8.0 and later the "
    "multiplications of float32 are TF32 unless cudnn.conv.fp32_precision is ieee; the first call "
    "includes cuDNN's search when benchmark is on. Determinism often costs no time; forward and "
    "backward with dilation=2 is a known case where it has cost 10 times and more on a GPU. In 16 "
    "bits try layout=channels_last too. A single image is little work for a GPU, which then waits "
    "for launches: raise batch.",
    convolutions="only",
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

    from workloads.declare import place
    from workloads.scripts.conv2d import forward, forward_backward

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
        convolution = torch.nn.Conv2d(
            channels_in, channels, kernel, stride, padding, dilation=dilation, groups=groups
        )
        convolution.to(device, place.DTYPES[dtype])
        # Module.to accepts a layout too, which torch's types omit.
        convolution.weight.data = convolution.weight.data.to(memory_format=form)
        return convolution

    conv = layer(on.device)
    image = on.randn(batch, channels_in, size, size, dtype=dtype).to(memory_format=form)
    timed = partial(forward, conv, image)
    if both:
        gradient = on.randn(batch, channels, size_out, size_out, dtype=dtype)
        timed = partial(forward_backward, conv, image, gradient.to(memory_format=form))

    meta = torch.device("meta")
    operations = place.count_flop(lambda: layer(meta)(image.to(meta)))
    # cuDNN's convolutions use TF32 by default; torch's own kernels do not.
    used = place.precision(on, dtype, "conv")

    def check() -> Check:
        with torch.no_grad():
            result = conv(image[:1])
            exact = copy.deepcopy(conv).to("cpu", torch.float64)
            reference = exact(image[:1].cpu().double())
        reference_name = "the first image's result, in float64 on the CPU"
        return place.against_float64(result, reference, place.TOLERANCES[used], reference_name)

    return Case(
        timed,
        # The weight's gradient takes as much as the way forward, the image needs none. torch's
        # counter would be wrong: it counts the backward pass of groups as if there were none.
        flop=operations * (2 if both else 1),
        item=batch,
        precision=used,
        check=check,
    )


OTHER = {NCHW: NHWC, NHWC: NCHW}


LAYERS_BATCH = (1, 32)
"""Sizes on the CPU and on a GPU, where one image would time the launch."""


@dataclass(frozen=True, slots=True)
class ConvolutionLayer:
    """A convolution without bias on a square image, padded so that only the stride shrinks it."""

    channels_in: int
    channels: int
    kernel: int
    stride: int
    size: int
    """Height and width of its input."""
    count: int
    """Number of such layers in the network."""

    @property
    def size_out(self) -> int:
        return (self.size - 1) // self.stride + 1

    @property
    def flop(self) -> int:
        """FLOP of one image; a multiply-add counts as two."""
        return 2 * self.channels_in * self.channels * self.kernel**2 * self.size_out**2

    @property
    def text(self) -> str:
        stride = f"/{self.stride}" if self.stride > 1 else ""
        size = f"{self.kernel}x{self.kernel}"
        return f"{size}{stride} {self.channels_in}→{self.channels} {self.size}²"


def _resnet50() -> tuple[ConvolutionLayer, ...]:
    """Return ResNet-50's convolutions (He et al. 2015, table 1), the stride in the 3 x 3 layer."""
    layers = [ConvolutionLayer(3, 64, kernel=7, stride=2, size=224, count=1)]
    channels, size = 64, 56
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        stride = 1 if width == 64 else 2
        out = 4 * width
        after = size // stride
        layers += [
            ConvolutionLayer(channels, width, kernel=1, stride=1, size=size, count=1),
            ConvolutionLayer(width, width, kernel=3, stride=stride, size=size, count=1),
            ConvolutionLayer(width, out, kernel=1, stride=1, size=after, count=blocks),
            ConvolutionLayer(channels, out, kernel=1, stride=stride, size=size, count=1),
            ConvolutionLayer(out, width, kernel=1, stride=1, size=after, count=blocks - 1),
            ConvolutionLayer(width, width, kernel=3, stride=1, size=after, count=blocks - 1),
        ]
        channels, size = out, after
    merged: dict[tuple[int, ...], ConvolutionLayer] = {}
    for layer in layers:
        key = (layer.channels_in, layer.channels, layer.kernel, layer.stride, layer.size)
        before = merged[key].count if key in merged else 0
        merged[key] = ConvolutionLayer(*key, before + layer.count)
    return tuple(merged.values())


RESNET50 = _resnet50()


@workload(
    group="flags",
    title="the convolutions of a ResNet-50",
    about="Every distinct convolution of ResNet-50 once, forward, float32, on 224 x 224 images. "
    "The table gives each layer's time and what all of its kind take in the network, and, except "
    "in a quick run, the other layout's time beside it.",
    look_for="Which layers take the time. A 1 x 1 layer at 56 x 56 does 16 to 43 operations for "
    "each byte that it reads or writes: on a GPU with TF32 it waits for memory, on a CPU it need "
    "not. A 3 x 3 layer does nine times as many for the same bytes, and the first layer has only 3 "
    "channels to multiply. Layouts and flags change each layer's time differently, so one layer's "
    "gain is not the network's. What a flag does to all of them: gpu-workbench compare "
    "resnet50_layers --flag cudnn.benchmark=off,on, on the CPU mkldnn.enabled.",
    convolutions="only",
)
def resnet50_layers(
    on: Place,
    batch: Annotated[int, whole(1, 1024, "images", auto=by_device(LAYERS_BATCH))] = 0,
    layout: Annotated[str, one_of((NCHW, NHWC), "how images and weights lie in memory")] = NCHW,
) -> Case:
    from workloads.declare.place import precision
    from workloads.scripts.resnet50_layers import convolve

    sizes = on.sizes(batch=(batch, LAYERS_BATCH))
    batch = sizes["batch"]
    pixels = sum(
        layer.channels_in * layer.size**2 + layer.channels * layer.size_out**2 for layer in RESNET50
    )
    weights = sum(layer.channels_in * layer.channels * layer.kernel**2 for layer in RESNET50)
    on.require(4 * (batch * pixels + weights), "the layers, their images and results")
    form = memory_format(layout)
    inputs, kernels = [], []
    for layer in RESNET50:
        image = on.randn(batch, layer.channels_in, layer.size, layer.size)
        weight = on.randn(layer.channels, layer.channels_in, layer.kernel, layer.kernel)
        inputs.append(image.to(memory_format=form))
        kernels.append(weight.to(memory_format=form))

    def timed() -> torch.Tensor:
        for layer, image, weight in zip(RESNET50, inputs, kernels, strict=True):
            result = convolve(image, weight, layer.stride)
        return result

    def study(study: Study) -> None:
        other = OTHER[layout]
        beside: list[NamedColumn] = []
        if not study.quick:
            beside = [(other, "s"), ("speed-up", "x"), "verdict"]
        study.table(
            "layers", f"kernel/stride, channels, input size; {layout}",
            "layer", "count", ("time", "s"), ("rate", "FLOP/s"),
            ("in the network", "s"), *beside,
        )  # fmt: skip
        total, ratios = 0.0, []
        for layer, image, weight in zip(RESNET50, inputs, kernels, strict=True):
            ways = {layout: _prepare_convolution(layer, image, weight)}
            if not study.quick:
                form = memory_format(other)
                pair = (image.to(memory_format=form), weight.to(memory_format=form))
                ways[other] = _prepare_convolution(layer, *pair)
            first, *second = study.compare(ways)
            cells = [
                cell
                for answer in second
                for cell in (answer.median_s, answer.ratio, answer.verdict)
            ]
            ratios += [answer.ratio for answer in second]
            total += layer.count * first.median_s
            rate, seconds = batch * layer.flop / first.median_s, layer.count * first.median_s
            study.row(
                "layers", layer.text, float(layer.count), first.median_s, rate, seconds, *cells
            )
        about = f"geometric mean over the layers: time of {layout} over {other}"
        if ratios:
            study.figure("layout_speed_up", statistics.geometric_mean(ratios), "x", about)
        else:
            study.absent("layout_speed_up", "a quick run times one layout", "x", about)
        network = batch * sum(layer.count * layer.flop for layer in RESNET50)
        about = "all convolutions of the network: each layer's time by its count"
        study.figure("network", total, "s", about)
        study.figure("network_flop_per_s", network / total, "FLOP/s", "of all of them together")

    return Case(
        timed,
        flop=batch * sum(layer.flop for layer in RESNET50),
        precision=precision(on, "float32", "conv"),
        chosen=sizes,
        study=study,
    )


def _prepare_convolution(
    layer: ConvolutionLayer, image: torch.Tensor, weight: torch.Tensor
) -> Callable[[], object]:
    from workloads.scripts.resnet50_layers import convolve

    return partial(convolve, image, weight, layer.stride)
