"""Multiply several shapes: few operations per byte wait for memory."""

import torch
from torch.utils.benchmark import Timer


def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, y)


SHAPES = (
    ("as in a layer", 1000, 500, 200),
    ("square", 1024, 1024, 1024),
    ("matrix-vector", 4096, 4096, 1),
    ("few columns", 4096, 4096, 8),
    ("smaller square", 512, 512, 512),  # as many operations
    ("thin inner", 2048, 16, 2048),
)

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    for name, rows, inner, columns in SHAPES:
        x = torch.randn(rows, inner, device=device)
        y = torch.randn(inner, columns, device=device)
        print(f"{name}: {rows}x{inner} times {inner}x{columns} is")
        print(f"  {tuple(multiply(x, y).shape)} of {x.dtype} on {x.device}")
        call = "multiply(x, y)"
        timer = Timer(call, globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=0.2).median
        flop = 2 * rows * inner * columns
        moved = 4 * (rows * inner + inner * columns + rows * columns)
        print(f"  {seconds * 1e6:.0f} µs, {flop / moved:.1f} FLOP per byte")
        print(f"  {flop / seconds / 1e9:.1f} GFLOP/s")
    print("A shape with few operations per byte waits for memory.")
