"""Multiply two square matrices, and count the floating-point operations per second."""

import torch
from torch.utils.benchmark import Timer


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n = 8192 if device.type == "cuda" else 1024
    print(f"Product of two {n} x {n} matrices on {device}:")
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(n, n, device=device, dtype=dtype)
        b = torch.randn(n, n, device=device, dtype=dtype)
        # The timer waits for the GPU before it reads the clock; by default it uses one CPU thread.
        timer = Timer("multiply(a, b)", globals=globals(), num_threads=torch.get_num_threads())
        seconds = timer.blocked_autorange(min_run_time=0.5).median
        rate = 2 * n**3 / seconds  # each entry is a sum of n products
        print(f"{dtype}: {seconds * 1e3:.3g} ms, {rate / 1e12:.3g} TFLOP/s")
    print("On a GPU, bfloat16 runs on the tensor cores; float32 does where TF32 is allowed.")
