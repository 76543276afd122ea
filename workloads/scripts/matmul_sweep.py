"""Find the size from which on the GPU multiplies faster than the CPU, copies included."""

import torch
from torch.utils.benchmark import Timer


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def multiply_with_copies(x: torch.Tensor, y: torch.Tensor, device: torch.device) -> torch.Tensor:
    return multiply(x.to(device), y.to(device)).cpu()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def seconds(statement: str) -> float:
        timer = Timer(statement, globals=globals(), num_threads=torch.get_num_threads())
        return timer.blocked_autorange(min_run_time=0.1).median

    for n in (32, 64, 128, 256, 512, 1024, 2048):
        x, y = torch.randn(n, n), torch.randn(n, n)
        a, b = x.to(device), y.to(device)
        cpu = seconds("multiply(x, y)")
        line = f"n={n:4}: CPU {cpu * 1e6:8.0f} µs ({2 * n**3 / cpu / 1e9:6.1f} GFLOP/s)"
        if device.type == "cuda":
            gpu = seconds("multiply(a, b)")
            copied = seconds("multiply_with_copies(x, y, device)")
            line += f", GPU {gpu * 1e6:6.0f} µs, with copies {copied * 1e6:6.0f} µs"
            line += "  GPU is faster" if copied < cpu else ""
        print(line)
    if device.type == "cpu":
        print("There is no GPU to compare with; the rate levels off where the CPU is busy.")
