"""Time single convolutions of a ResNet-50, and see which of them wait for memory."""

import torch
from torch.utils.benchmark import Timer


def convolve(image: torch.Tensor, weight: torch.Tensor, stride: int) -> torch.Tensor:
    padding = weight.shape[-1] // 2
    return torch.nn.functional.conv2d(image, weight, stride=stride, padding=padding)


LAYERS = (  # channels in and out, kernel, stride, height and width, count in the network
    (3, 64, 7, 2, 224, 1),
    (64, 64, 3, 1, 56, 3),
    (64, 256, 1, 1, 56, 4),
    (128, 128, 3, 1, 28, 3),
    (512, 128, 1, 1, 28, 3),
    (256, 256, 3, 1, 14, 5),
    (1024, 256, 1, 1, 14, 5),
    (512, 512, 3, 1, 7, 2),
)

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = 32 if device.type == "cuda" else 1
    threads = torch.get_num_threads()
    print(f"Some layers of a ResNet-50, {batch} images, on {device}:")
    for inputs, outputs, kernel, stride, size, count in LAYERS:
        image = torch.randn(batch, inputs, size, size, device=device)
        weight = torch.randn(outputs, inputs, kernel, kernel, device=device)
        timer = Timer("convolve(image, weight, stride)", globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=0.2).median
        flop = 2 * convolve(image, weight, stride).numel() * inputs * kernel**2
        name = f"{kernel}x{kernel}/{stride} {inputs:4} to {outputs:3}, {size:3}², {count} times"
        print(f"{name}: {seconds * 1e3:6.2f} ms, {flop / seconds / 1e9:6.0f} GFLOP/s")
    print("On a GPU, 1x1 layers at 56² wait for memory: they compute little for each byte.")
