"""Multiply matrices of 8-bit numbers, each scaled so that its largest entry fits the type."""

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.benchmark import Timer


def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().max() / torch.finfo(torch.float8_e4m3fn).max  # the largest number is 448
    return (x / scale).to(torch.float8_e4m3fn), scale


def multiply(a: Tensor, scale_a: Tensor, b: Tensor, scale_b: Tensor) -> Tensor:
    by = functional.ScalingType.TensorWise  # one scale for the whole matrix
    return functional.scaled_mm(a, b, scale_a, by, scale_b, by, output_dtype=torch.bfloat16)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        print("This needs a GPU of compute capability 8.9 or later.")
        raise SystemExit
    if not hasattr(functional, "scaled_mm"):
        print(f"This needs torch.nn.functional.scaled_mm: torch {torch.__version__} has none.")
        raise SystemExit
    n = 4096 if device.type == "cuda" else 512
    x, y = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    (a, scale_a), (b, scale_b) = quantize(x), quantize(y)
    b = b.t().contiguous().t()  # the second factor is read by columns
    x16, y16 = x.bfloat16(), y.bfloat16()
    products = {"bfloat16": x16 @ y16, "float8": multiply(a, scale_a, b, scale_b)}
    calls = {"bfloat16": "x16 @ y16", "float8": "multiply(a, scale_a, b, scale_b)"}
    for name, call in calls.items():
        timer = Timer(call, globals=globals(), num_threads=torch.get_num_threads())
        seconds = timer.blocked_autorange(min_run_time=0.3).median
        error = (products[name].float() - x @ y).abs().max() / (x @ y).abs().max()
        print(f"{name:8} n={n} on {device}: {seconds * 1e3:8.3f} ms, error {error:.3f}")
