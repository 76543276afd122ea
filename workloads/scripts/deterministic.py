"""Ask for the same bits in each run, and see what that costs a convolution."""

import torch
from torch import Tensor
from torch.utils.benchmark import Timer


def gradients(image: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    result = torch.nn.functional.conv2d(image, weight, padding=1)
    return torch.autograd.grad(result, (image, weight), gradient)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, channels, size = (64, 128, 56) if device.type == "cuda" else (4, 32, 28)
    image = torch.randn(batch, channels, size, size, device=device, requires_grad=True)
    weight = torch.randn(channels, channels, 3, 3, device=device, requires_grad=True)
    gradient = torch.randn(batch, channels, size, size, device=device)
    for asked in (False, True):
        # Beside convolutions it covers all operations, and raises where one has no such algorithm.
        torch.use_deterministic_algorithms(asked)
        first = gradients(image, weight, gradient)
        differing = sum(
            not all(map(torch.equal, first, gradients(image, weight, gradient))) for _ in range(8)
        )
        timer = Timer(
            "gradients(image, weight, gradient)",
            globals=globals(),
            num_threads=torch.get_num_threads(),
        )
        seconds = timer.blocked_autorange(min_run_time=0.3).median
        print(
            f"use_deterministic_algorithms({asked}) on {device}: {seconds * 1e3:.2f} ms, ", end=""
        )
        print(f"{differing} of 8 repeats differ in some bit")
