"""Measure the highest rates of this device: matrix products by type, and a copy in memory."""

import torch
from torch.utils.benchmark import Timer


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n = 8192 if device.type == "cuda" else 1024
    threads = torch.get_num_threads()
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(n, n, device=device).to(dtype)
        b = torch.randn(n, n, device=device).to(dtype)
        timer = Timer("multiply(a, b)", globals=globals(), num_threads=threads)
        # The shortest block, in which the least else has disturbed the device.
        best = min(timer.blocked_autorange(min_run_time=1.0).times)
        print(f"{dtype} product, n={n}: {2 * n**3 / best / 1e12:.3g} TFLOP/s on {device}")
    source = torch.randn(2**27 if device.type == "cuda" else 2**25, device=device)
    target = torch.empty_like(source)
    timer = Timer("target.copy_(source)", globals=globals(), num_threads=threads)
    best = min(timer.blocked_autorange(min_run_time=1.0).times)
    print(f"Copy, read and written: {2 * source.nbytes / best / 1e9:.4g} GB/s")
    print("Hold your own kernels against these rates rather than against the data sheet.")
