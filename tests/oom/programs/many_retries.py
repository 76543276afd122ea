"""Retry with smaller batches, and store the exceptions, whose tracebacks keep the failed passes."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(16) for layer in (torch.nn.Linear(4096, 4096), torch.nn.ReLU()))
).cuda()


def step(rows: int) -> None:
    x = torch.randn(rows, 4096, device="cuda")  # asks
    model(x).mean().backward()  # asks


def train() -> None:
    rows, errors = 60_000, []
    while True:
        try:
            step(rows)
        except torch.OutOfMemoryError as error:
            errors.append(error)
            rows = rows * 3 // 4
            if rows < 1000:
                raise
        else:
            break


train()
