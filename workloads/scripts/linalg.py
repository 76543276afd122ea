"""Solve linear equations, and compare the time with that of a matrix product."""

import torch
from torch.utils.benchmark import Timer


def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    solution: torch.Tensor = torch.linalg.solve(a, b)
    return solution


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n = 2048 if device.type == "cuda" else 384
    a = torch.randn(n, n, device=device) / n**0.5 + 2 * torch.eye(n, device=device)
    b = torch.randn(n, 1, device=device)
    symmetric = (a + a.T) / 2
    positive = a @ a.T + torch.eye(n, device=device)
    residual = (a @ solve(a, b) - b).abs().max().item()
    print(f"{n} equations on {device}, residual {residual:.1e}")
    product = 0.0
    for call in (
        "a @ symmetric",
        "solve(a, b)",
        "torch.linalg.cholesky(positive)",
        "torch.linalg.eigvalsh(symmetric)",
        "torch.linalg.eigvals(a)",
    ):
        timer = Timer(call, globals=globals(), num_threads=torch.get_num_threads())
        seconds = timer.blocked_autorange(min_run_time=0.2).median
        product = product or seconds
        print(f"{call:33} {seconds * 1e3:9.2f} ms, {seconds / product:7.1f} products")
    print("Eigenvalues take longest; use eigvalsh where the matrix is symmetric.")
