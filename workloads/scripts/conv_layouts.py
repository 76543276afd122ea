"""Lay images out channel by channel (NCHW) or pixel by pixel (channels_last)."""

import torch
from torch.utils.benchmark import Timer


def convolve(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(image, weight, padding=1)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, channels, size = (64, 128, 56) if device.type == "cuda" else (4, 32, 28)
    layouts = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
    print(f"3 x 3 convolution, {batch} images, {channels} channels, {size}², on {device}:")
    for dtype in (torch.float32, torch.bfloat16):
        for name, layout in layouts.items():
            image = torch.randn(batch, channels, size, size, device=device, dtype=dtype)
            weight = torch.randn(channels, channels, 3, 3, device=device, dtype=dtype)
            # Convert both: torch would convert the other one in each call.
            image, weight = image.to(memory_format=layout), weight.to(memory_format=layout)
            timer = Timer(
                "convolve(image, weight)", globals=globals(), num_threads=torch.get_num_threads()
            )
            seconds = timer.blocked_autorange(min_run_time=0.3).median
            print(f"{dtype} {name:13} {seconds * 1e3:8.3f} ms, strides {image.stride()}")
    print("A GPU's tensor cores read channels_last; of a model: model.to(memory_format=…).")
