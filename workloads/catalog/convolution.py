"""Convolutions: what cuDNN and oneDNN are asked to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from workloads.catalog.compute import TOLERANCES
from workloads.results import Check
from workloads.workload import Case, one_of, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.place import Place

FORWARD, BOTH = "forward", "forward+backward"


@workload(
    group="convolution",
    compared=True,
    title="3 x 3 convolution of an image",
    about="A convolution layer with a 3 x 3 kernel and padding 1 on a square image, float32, as "
    "the first layer of an image classifier: 3 channels in, 64 out, 224 x 224.",
    look_for="What the backend switches do to it. On a GPU the multiplications are TF32 unless "
    "allow TF32 is off; the first call holds cuDNN's search when benchmark is on.",
)
def conv2d(
    on: Place,
    batch: Annotated[int, whole(1, 4096, "images")] = 1,
    channels_in: Annotated[int, whole(1, 4096, "channels of the image")] = 3,
    channels: Annotated[int, whole(1, 4096, "channels of the result")] = 64,
    size: Annotated[int, whole(3, 8192, "height and width, pixels")] = 224,
    mode: Annotated[str, one_of((FORWARD, BOTH), "what is timed")] = FORWARD,
) -> Case:
    import torch

    from workloads import flop
    from workloads.checks import against_float64
    from workloads.place import SEED, precision

    pixels = batch * size * size
    copies = 2 if mode == BOTH else 1
    on.require(4 * pixels * (channels_in + channels) * copies, "the image and the result")

    def layer(device: torch.device) -> torch.nn.Conv2d:
        torch.manual_seed(SEED)
        return torch.nn.Conv2d(channels_in, channels, kernel_size=3, padding=1).to(device)

    conv = layer(on.device)
    image = on.randn(batch, channels_in, size, size)
    gradient = on.randn(batch, channels, size, size) if mode == BOTH else None

    def timed(
        conv: torch.nn.Conv2d = conv,
        image: torch.Tensor = image,
        gradient: torch.Tensor | None = gradient,
    ) -> object:
        result = conv(image)
        if gradient is not None:
            conv.zero_grad(set_to_none=True)
            result.backward(gradient)
        return result

    meta = torch.device("meta")
    meta_gradient = None if gradient is None else gradient.to(meta)
    operations = flop.count(lambda: timed(layer(meta), image.to(meta), meta_gradient))
    # cuDNN's convolutions use TF32 unless told not to; torch's own kernels do not.
    cudnn = torch.backends.cudnn
    used = precision(on, "float32", cudnn.enabled and cudnn.allow_tf32)

    def check() -> Check:
        with torch.no_grad():
            result = conv(image[:1])
            reference = layer(torch.device("cpu")).double()(image[:1].cpu().double())
        what = "the first image's result, in float64 on the CPU"
        return against_float64(result, reference, TOLERANCES[used], what)

    return Case(
        timed,
        flop=operations,
        item=batch,
        precision=used,
        check=check,
    )
