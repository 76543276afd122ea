"""Sum products in a Python loop over tensor elements, over floats, and in one expression."""

import torch
from torch.utils.benchmark import Timer


def one_expression(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b + 1).sum()


def tensor_loop(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = a[0] * b[0] + 1
    for index in range(1, len(a)):
        total = total + (a[index] * b[index] + 1)  # several operations for a single number
    return total


def float_loop(a: list[float], b: list[float]) -> float:
    return sum(x * y + 1 for x, y in zip(a, b, strict=True))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    a, b = torch.randn(1000, device=device), torch.randn(1000, device=device)
    floats = a.tolist(), b.tolist()
    for call in ("tensor_loop(a, b)", "float_loop(*floats)", "one_expression(a, b)"):
        timer = Timer(call, globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=0.3).median
        print(f"{call:20}: {seconds * 1e6:10.1f} µs for 1000 elements on {device}")
    print(f"All give the same: {float(one_expression(a, b)):.3f}, {float_loop(*floats):.3f}")
