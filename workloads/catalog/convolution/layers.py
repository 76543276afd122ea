"""The convolutions of a whole network, layer by layer."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.convolution.shared import NCHW, NHWC, memory_format
from workloads.declare.study import Study
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.protocol.frozen import frozen
from workloads.protocol.results import Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

OTHER = {NCHW: NHWC, NHWC: NCHW}


VERDICT = Column("verdict")
BATCH = (1, 32)
"""On the CPU and on a GPU, where one image would time the launch."""


@frozen
class Layer:
    """A convolution without bias on a square image, padded so that only the stride shrinks it."""

    channels_in: int
    channels: int
    kernel: int
    stride: int
    size: int
    """Height and width of its input."""
    count: int
    """How often the network has it."""

    @property
    def size_out(self) -> int:
        return (self.size - 1) // self.stride + 1

    @property
    def flop(self) -> int:
        """Of one image; a multiply-add counts as two."""
        return 2 * self.channels_in * self.channels * self.kernel**2 * self.size_out**2

    @property
    def text(self) -> str:
        stride = f"/{self.stride}" if self.stride > 1 else ""
        size = f"{self.kernel}x{self.kernel}"
        return f"{size}{stride} {self.channels_in}→{self.channels} {self.size}²"


def _resnet50() -> tuple[Layer, ...]:
    """The convolutions of ResNet-50 (He et al. 2015, table 1), the stride in the 3 x 3 layer."""
    layers = [Layer(3, 64, kernel=7, stride=2, size=224, count=1)]
    channels, size = 64, 56
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        stride = 1 if width == 64 else 2
        out = 4 * width
        after = size // stride
        layers += [
            Layer(channels, width, kernel=1, stride=1, size=size, count=1),
            Layer(width, width, kernel=3, stride=stride, size=size, count=1),
            Layer(width, out, kernel=1, stride=1, size=after, count=blocks),
            Layer(channels, out, kernel=1, stride=stride, size=size, count=1),
            Layer(out, width, kernel=1, stride=1, size=after, count=blocks - 1),
            Layer(width, width, kernel=3, stride=1, size=after, count=blocks - 1),
        ]
        channels, size = out, after
    merged: dict[tuple[int, ...], Layer] = {}
    for layer in layers:
        key = (layer.channels_in, layer.channels, layer.kernel, layer.stride, layer.size)
        before = merged[key].count if key in merged else 0
        merged[key] = Layer(*key, before + layer.count)
    return tuple(merged.values())


RESNET50 = _resnet50()


@workload(
    group="convolution",
    title="the convolutions of a ResNet-50",
    about="Every distinct convolution of ResNet-50 once, forward, float32, on 224 x 224 images. "
    "The table gives each layer's time and what all of its kind take in the network, and but for a "
    "quick run the other layout's time beside it.",
    look_for="Which layers take the time. A 1 x 1 layer at 56 x 56 does 16 to 43 operations for "
    "each byte that it reads or writes: on a GPU with TF32 it waits for memory, on a CPU it need "
    "not. A 3 x 3 layer does nine times as many for the same bytes, and the first layer has but 3 "
    "channels to multiply. Layouts and flags change each layer's time differently, so one layer's "
    "gain is not the network's. What a flag does to all of them: gpu-workbench compare "
    "resnet50_layers --flag cudnn.benchmark=off,on, on the CPU mkldnn.enabled.",
)
def resnet50_layers(
    on: Place,
    batch: Annotated[int, whole(1, 1024, "images", auto=by_device(BATCH))] = 0,
    layout: Annotated[str, one_of((NCHW, NHWC), "how images and weights lie in memory")] = NCHW,
) -> Case:
    import torch

    from workloads.declare.place import precision

    sizes = on.sizes(batch=(batch, BATCH))
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
            result = torch.nn.functional.conv2d(
                image, weight, stride=layer.stride, padding=layer.kernel // 2
            )
        return result

    def study(found: Study) -> None:
        other = OTHER[layout]
        beside = [] if found.quick else [Column(other, "s"), Column("speed-up", "x"), VERDICT]
        found.table(
            "layers", f"kernel/stride, channels, input size; {layout}", Column("layer"),
            Column("count"), Column("time", "s"), Column("rate", "FLOP/s"),
            Column("in the network", "s"), *beside,
        )  # fmt: skip
        total, ratios = 0.0, []
        for layer, image, weight in zip(RESNET50, inputs, kernels, strict=True):
            ways = {layout: _one(layer, image, weight)}
            if not found.quick:
                form = memory_format(other)
                pair = (image.to(memory_format=form), weight.to(memory_format=form))
                ways[other] = _one(layer, *pair)
            first, *second = found.compare(ways)
            cells = [cell for each in second for cell in (each.median_s, each.ratio, each.verdict)]
            ratios += [each.ratio for each in second]
            total += layer.count * first.median_s
            rate, taken = batch * layer.flop / first.median_s, layer.count * first.median_s
            found.row("layers", layer.text, float(layer.count), first.median_s, rate, taken, *cells)
        about = f"geometric mean over the layers: time of {layout} over {other}"
        if ratios:
            found.figure("layout_speed_up", statistics.geometric_mean(ratios), "x", about)
        else:
            found.absent("layout_speed_up", "a quick run times one layout", "x", about)
        network = batch * sum(layer.count * layer.flop for layer in RESNET50)
        about = "all convolutions of the network: each layer's time by its count"
        found.figure("network", total, "s", about)
        found.figure("network_flop_per_s", network / total, "FLOP/s", "of all of them together")

    cudnn = torch.backends.cudnn
    return Case(
        timed,
        flop=batch * sum(layer.flop for layer in RESNET50),
        precision=precision(on, "float32", cudnn.enabled and cudnn.allow_tf32),
        chosen=sizes,
        study=study,
    )


def _one(layer: Layer, image: torch.Tensor, weight: torch.Tensor) -> Callable[[], object]:
    import torch

    return lambda: torch.nn.functional.conv2d(
        image, weight, stride=layer.stride, padding=layer.kernel // 2
    )
