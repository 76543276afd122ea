"""Register a callback each step that captures the step's output."""

from collections.abc import Callable

import torch

model = torch.nn.Linear(1024, 1024).cuda()
callbacks: list[Callable[[], float]] = []


def train() -> None:
    for _ in range(500):
        x = torch.randn(8192, 1024, device="cuda")  # asks
        out = model(x).detach()  # asks

        def report(out: torch.Tensor = out) -> float:
            return float(out.mean())

        callbacks.append(report)  # leaks


train()
