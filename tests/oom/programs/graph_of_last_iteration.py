"""Evaluate without no_grad(): the graph of one batch is alive while the next is computed."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(12) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()


def measure() -> None:
    for _ in range(10):
        scores = model(torch.randn(45_000, 1024, device="cuda"))  # asks
        print(float(scores.mean()))


measure()
