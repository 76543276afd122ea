"""Layers of image models: by layout and type, those of a ResNet-50, and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.compute import TOLERANCES
from workloads.fact import fact
from workloads.results import Check, Column
from workloads.study import Study
from workloads.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.place import Place

NCHW, NHWC = "NCHW", "channels_last"
TYPES = ("float32", "bfloat16", "float16")


@fact
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
    layers = [Layer(3, 64, 7, 2, 224, 1)]
    channels, size = 64, 56
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        stride = 1 if width == 64 else 2
        out = 4 * width
        after = size // stride
        layers += [
            Layer(channels, width, 1, 1, size, 1),
            Layer(width, width, 3, stride, size, 1),
            Layer(width, out, 1, 1, after, blocks),
            Layer(channels, out, 1, stride, size, 1),
            Layer(out, width, 1, 1, after, blocks - 1),
            Layer(width, width, 3, 1, after, blocks - 1),
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
    "The table gives each layer's time and what all of its kind take in the network.",
    look_for="Which layers hold the time: the 3 x 3 layers come near the limit, the 1 x 1 layers "
    "at 56 x 56 wait for memory, the first has too few channels to fill the machine. The flags act "
    "on each differently, which is why one layer's gain does not tell the network's.",
)
def resnet50_layers(
    on: Place,
    batch: Annotated[int, whole(1, 1024, "images")] = 1,
) -> Case:
    import torch

    from workloads.place import precision

    pixels = sum(
        layer.channels_in * layer.size**2 + layer.channels * layer.size_out**2 for layer in RESNET50
    )
    weights = sum(layer.channels_in * layer.channels * layer.kernel**2 for layer in RESNET50)
    on.require(4 * (batch * pixels + weights), "the layers, their images and results")
    inputs = [on.randn(batch, layer.channels_in, layer.size, layer.size) for layer in RESNET50]
    kernels = [
        on.randn(layer.channels, layer.channels_in, layer.kernel, layer.kernel)
        for layer in RESNET50
    ]

    def timed() -> torch.Tensor:
        for layer, image, weight in zip(RESNET50, inputs, kernels, strict=True):
            result = torch.nn.functional.conv2d(
                image, weight, stride=layer.stride, padding=layer.kernel // 2
            )
        return result

    def study(found: Study) -> None:
        found.table(
            "layers", "kernel/stride, channels, input size", Column("layer"), Column("count"),
            Column("time", "s"), Column("rate", "FLOP/s"), Column("in the network", "s"),
        )  # fmt: skip
        total = 0.0
        for layer, image, weight in zip(RESNET50, inputs, kernels, strict=True):
            seconds = found.time(_one(layer, image, weight))
            total += layer.count * seconds
            flop = batch * layer.flop
            found.row(
                "layers", layer.text, float(layer.count), seconds, flop / seconds,
                layer.count * seconds,
            )  # fmt: skip
        network = batch * sum(layer.count * layer.flop for layer in RESNET50)
        about = "all convolutions of the network: each layer's time by its count"
        found.figure("network", total, "s", about)
        found.figure("network_flop_per_s", network / total, "FLOP/s", "of all of them together")

    cudnn = torch.backends.cudnn
    return Case(
        timed,
        flop=batch * sum(layer.flop for layer in RESNET50),
        precision=precision(on, "float32", cudnn.enabled and cudnn.allow_tf32),
        study=study,
    )


def _one(layer: Layer, image: torch.Tensor, weight: torch.Tensor) -> Callable[[], object]:
    import torch

    return lambda: torch.nn.functional.conv2d(
        image, weight, stride=layer.stride, padding=layer.kernel // 2
    )


@workload(
    group="convolution",
    compared=True,
    title="memory layout and type of a convolution",
    about="One 3 x 3 convolution with its image and weight laid out as NCHW, channel by channel, "
    "and as channels_last, pixel by pixel, in float32, bfloat16 and float16. Timed: channels_last, "
    "float32.",
    look_for="Tensor cores read channels_last: NCHW in 16 bits pays for being turned round in each "
    "call. Both the model and its input must be converted; one alone gains nothing. On a CPU "
    "without 16-bit products the short types are slower, not faster. On a GPU raise batch and "
    "channels (64, 128, 56): at the defaults the launch is most of what is timed.",
)
def conv_layouts(
    on: Place,
    batch: Annotated[int, whole(1, 4096, "images")] = 4,
    channels: Annotated[int, whole(1, 4096, "channels in and out")] = 32,
    size: Annotated[int, whole(3, 2048, "height and width, pixels")] = 28,
) -> Case:
    import torch

    from workloads.checks import against_float64
    from workloads.place import DTYPES, precision

    numbers = batch * channels * size**2
    on.require(4 * 6 * 2 * numbers + 4 * 9 * channels**2, "images in every layout and type")
    image, weight = on.randn(batch, channels, size, size), on.randn(channels, channels, 3, 3)
    layouts = {NCHW: torch.contiguous_format, NHWC: torch.channels_last}

    def laid_out(layout: str, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
        form = layouts[layout]
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
        for dtype in TYPES:
            calls = {layout: partial(timed, *laid_out(layout, dtype)) for layout in layouts}
            plain, last = found.compare(calls)
            best = flop / min(plain.median_s, last.median_s)
            found.row(
                "grid", dtype, plain.median_s, last.median_s, last.ratio, last.interval,
                last.verdict, best,
            )  # fmt: skip

    return Case(timed, flop=flop, item=batch, precision=used, check=check, study=study)


@workload(
    group="convolution",
    title="a convolution block and its primitives",
    about="Convolution, batch norm, ReLU and max pooling as one block, then each by itself, with "
    "average pooling, a fully connected layer and an LSTM: what cuDNN, cuBLAS and oneDNN have "
    "kernels for.",
    look_for="Only convolution, the fully connected layer and the LSTM multiply; the others move "
    "bytes, and take a share of the time out of proportion to their arithmetic. That is what "
    "fusing them into the convolution saves.",
)
def conv_block(
    on: Place,
    batch: Annotated[int, whole(1, 4096, "images")] = 4,
    channels: Annotated[int, whole(1, 4096, "channels in and out")] = 32,
    size: Annotated[int, whole(4, 2048, "height and width, pixels")] = 56,
) -> Case:
    import torch

    from workloads.place import SEED, precision

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

    @torch.no_grad()
    def timed() -> object:
        return pool(relu(norm(conv(image))))

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

    def study(found: Study) -> None:
        found.table(
            "primitives", f"{batch} images, {channels} channels, {size}²", Column("primitive"),
            Column("time", "s"), Column("rate", "FLOP/s"), Column("in and out", "byte/s"),
        )  # fmt: skip
        found.unavailable["tables.primitives.rate"] = "it moves bytes and multiplies nothing"
        for name, (flop, values, call) in calls.items():
            seconds = found.time(quiet(call))
            rate = None if flop is None else flop / seconds
            found.row("primitives", name, seconds, rate, 4 * values / seconds)

    cudnn = torch.backends.cudnn
    used = precision(on, "float32", cudnn.enabled and cudnn.allow_tf32)
    return Case(timed, flop=9 * product, item=batch, precision=used, study=study)
