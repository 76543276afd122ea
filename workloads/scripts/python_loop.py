"""Sum products in a loop over tensor elements, and in one expression."""

import torch
from torch.utils.benchmark import Timer


def one_expression(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b + 1).sum()


def tensor_loop(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = a[0] * b[0] + 1
    for index in range(1, len(a)):
        # Several operations for a single number.
        total = total + (a[index] * b[index] + 1)
    return total


def float_loop(a: list[float], b: list[float]) -> float:
    return sum(x * y + 1 for x, y in zip(a, b, strict=True))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    a = torch.randn(1000, device=device)
    b = torch.randn(1000, device=device)
    floats = a.tolist(), b.tolist()
    loops = "tensor_loop(a, b)", "float_loop(*floats)"
    for call in (*loops, "one_expression(a, b)"):
        timer = Timer(call, globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=0.3).median
        print(f"{call:20}: {seconds * 1e6:10.1f} µs on {device}")
    sums = float(one_expression(a, b)), float_loop(*floats)
    print(f"All give the same sum of 1000: {sums[0]:.3f}, {sums[1]:.3f}")
