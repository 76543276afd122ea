"""Convolve images of changing sizes: the first call of each shape costs extra."""

from statistics import median
from time import perf_counter

import torch


def convolve_all(images: list[torch.Tensor], weight: torch.Tensor) -> torch.Tensor:
    for image in images:
        result = torch.nn.functional.conv2d(image, weight, padding=1)
    return result


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.randn(32, 32, 3, 3, device=device)

    def seconds(images: list[torch.Tensor]) -> float:
        start = perf_counter()
        convolve_all(images, weight)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return perf_counter() - start

    seconds([torch.randn(1, 32, 16, 16, device=device)])  # loads the libraries
    for benchmark in (False, True) if device.type == "cuda" else (False,):
        torch.backends.cudnn.benchmark = benchmark
        first_size = 100 if benchmark else 24
        sizes = range(first_size, first_size + 6)
        images = [torch.randn(1, 32, size, size, device=device) for size in sizes]
        first = seconds(images)
        later = median(seconds(images) for _ in range(5))
        print(f"6 new sizes, cudnn.benchmark={benchmark}: {first * 1e3:.2f} ms")
        print(f"the same sizes again: {later * 1e3:.2f} ms, {first / later:.1f} times as fast")
    print("If sizes keep changing, pad them to a few, and leave cudnn.benchmark off.")
