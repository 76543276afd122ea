"""Repeat one product on every GPU: is the rate steady, and are the bits the same each time?"""

import time

import torch


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def count_wrong(product: torch.Tensor, first: torch.Tensor) -> int:
    # A GPU gives the same bits each time; a CPU's library may sum in another order.
    allowed = 0.0 if product.is_cuda else 1e-4 * first.abs().max()
    return int((~((product - first).abs() <= allowed)).sum())


if __name__ == "__main__":
    cuda = torch.cuda.is_available()
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if cuda else ["cpu"]
    n = 4096 if cuda else 1024
    data = [(torch.randn(n, n, device=each), torch.randn(n, n, device=each)) for each in devices]
    first = [multiply(a, b) for a, b in data]
    for tick in range(4):
        began = time.perf_counter()
        for _ in range(10):
            products = [multiply(a, b) for a, b in data]  # queued on all GPUs at once
        wrong = [count_wrong(*pair) for pair in zip(products, first, strict=True)]
        rate = 10 * 2 * n**3 / (time.perf_counter() - began)
        print(f"tick {tick}: {rate / 1e12:.3g} TFLOP/s each, {sum(wrong)} wrong on {devices}")
    print("A falling rate is heat or a power limit; a wrong entry is a broken device or memory.")
