"""Time a block of convolution, batch norm, ReLU and pooling, and each of its layers."""

import torch
from torch.utils.benchmark import Timer


@torch.no_grad()
def run(layers: torch.nn.Module, image: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = layers(image)
    return result


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, channels, size = (64, 64, 112) if device.type == "cuda" else (4, 32, 56)
    block = torch.nn.Sequential(
        torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(channels),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
    ).to(device)
    image = torch.randn(batch, channels, size, size, device=device)
    print(f"{batch} images, {channels} channels, {size}², on {device}:")
    total = 0.0
    for layers in (block, *block):
        timer = Timer("run(layers, image)", globals=globals(), num_threads=torch.get_num_threads())
        seconds = timer.blocked_autorange(min_run_time=0.3).median
        total = total or seconds
        name = "the block" if layers is block else type(layers).__name__
        print(f"{name:12} {seconds * 1e3:8.3f} ms, {seconds / total:4.0%} of the block")
    print("Only the convolution computes much; the others read and write memory, which fusing")
    print("saves: torch.compile does it, and fuse_conv_bn_eval for a trained model.")
