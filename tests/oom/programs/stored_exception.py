"""Retry with half the batch after an OOM, but keep the exception, and so the failed attempt."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(10) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def step(batch: int) -> None:
    x = torch.randn(batch, 1024, device="cuda")  # asks
    model(x).square().mean().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()


def train(batch: int) -> None:
    for _ in range(5):
        step(8192)
    last = None
    while batch > 50_000:
        try:
            step(batch)
            return
        except torch.OutOfMemoryError as error:
            last = error  # leaks
        torch.cuda.empty_cache()
        batch //= 2
    raise last or ValueError(batch)


train(131072)
