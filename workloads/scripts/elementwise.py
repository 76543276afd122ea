"""Compile a chain of pointwise operations into one kernel that reads and writes once."""

from time import perf_counter

import torch
from torch.utils.benchmark import Timer


def chain(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2 + 1) - x


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(2**25, device=device)  # 128 MiB
    compiled = torch.compile(chain)
    start = perf_counter()
    try:
        compiled(x)
    except Exception as error:  # the compilers raise classes of their own
        print(
            f"torch.compile needs a C++ compiler, or Triton: {str(error).strip().splitlines()[0]}"
        )
        raise SystemExit from error
    print(f"The first call, which compiles: {perf_counter() - start:.1f} s")
    medians = []
    for name in ("chain", "compiled"):
        timer = Timer(f"{name}(x)", globals=globals(), num_threads=torch.get_num_threads())
        medians.append(timer.blocked_autorange(min_run_time=0.5).median)
        print(f"{name:8} {medians[-1] * 1e3:.2f} ms on {device}")
    print(f"Compiled it is {medians[0] / medians[1]:.1f} times as fast: it moves 2 tensors, not 9.")
