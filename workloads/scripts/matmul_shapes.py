"""Multiply matrices of several shapes: few operations per byte leave the units waiting."""

import torch
from torch.utils.benchmark import Timer


def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, y)


SHAPES = (
    ("as in a layer", 1000, 500, 200),
    ("square", 1024, 1024, 1024),
    ("matrix-vector", 4096, 4096, 1),
    ("few columns", 4096, 4096, 8),
    ("thin inner", 2048, 16, 2048),
)

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    result = multiply(torch.randn(1000, 500, device=device), torch.randn(500, 200, device=device))
    print(f"1000 x 500 times 500 x 200: {tuple(result.shape)}, {result.dtype}, {result.device}")
    for name, rows, inner, columns in SHAPES:
        x = torch.randn(rows, inner, device=device)
        y = torch.randn(inner, columns, device=device)
        timer = Timer("multiply(x, y)", globals=globals(), num_threads=torch.get_num_threads())
        seconds = timer.blocked_autorange(min_run_time=0.2).median
        flop = 2 * rows * inner * columns
        moved = 4 * (rows * inner + inner * columns + rows * columns)
        print(
            f"{name:14} {rows}x{inner} · {inner}x{columns}: {seconds * 1e6:7.0f} µs, "
            f"{flop / seconds / 1e9:7.1f} GFLOP/s, {flop / moved:5.1f} FLOP per byte"
        )
    print("A shape with few operations per byte waits for memory, not for arithmetic.")
