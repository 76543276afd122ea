"""Time a product with and without waiting for the GPU."""

import time

import torch
from torch.utils.benchmark import Timer


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    n = 2000
    a = torch.randn(n, n, device=device)
    b = torch.randn(n, n, device=device)
    multiply(a, b)  # the first call also loads libraries

    def synchronize() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    synchronize()
    began = time.time()
    multiply(a, b)
    naive = time.time() - began  # a GPU call returns when it is queued
    synchronize()
    began = time.time()
    multiply(a, b)
    synchronize()
    waited = time.time() - began
    timer = Timer("multiply(a, b)", globals=globals(), num_threads=threads)
    blocks = timer.blocked_autorange().median
    times = {"naive": naive, "synchronized": waited, "blocks": blocks}
    for clock, seconds in times.items():
        rate = 2 * n**3 / seconds / 1e12
        print(f"{clock:12}: {seconds * 1e3:8.3f} ms, {rate:.3g} TFLOP/s")
    if device.type == "cuda":
        print("A clock that did not wait shows a rate above the GPU's own.")
    else:
        print("On a CPU the call returns when its work is done.")
