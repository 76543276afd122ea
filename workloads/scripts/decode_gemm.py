"""Multiply few rows with a matrix of weights, as a language model does for each token."""

import torch
from torch.utils.benchmark import Timer


def multiply(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, weights)  # x @ weights.T


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n = 8192 if device.type == "cuda" else 2048
    weights = torch.randn(n, n, device=device, dtype=torch.bfloat16)
    print(f"m rows times {n} x {n} bfloat16 weights on {device}:")
    for m in (1, 2, 4, 8, 16, 32, 64, n):
        x = torch.randn(m, n, device=device, dtype=torch.bfloat16)
        timer = Timer(
            "multiply(x, weights)", globals=globals(), num_threads=torch.get_num_threads()
        )
        seconds = timer.blocked_autorange(min_run_time=0.2).median
        moved = weights.element_size() * (n * n + 2 * m * n)
        print(
            f"m={m:5}: {seconds * 1e6:8.0f} µs, {moved / seconds / 1e9:6.1f} GB/s, "
            f"{2 * m * n * n / seconds / 1e12:7.3f} TFLOP/s"
        )
    print("While reading the weights takes the time, more rows cost almost nothing.")
