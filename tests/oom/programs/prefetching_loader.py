"""Prefetch four batches to the GPU; then one batch is too large for the model."""

import queue
import threading

import torch

ready: "queue.Queue[torch.Tensor]" = queue.Queue(maxsize=4)
model = torch.nn.Sequential(
    *(layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def load() -> None:
    for step in range(40):
        ready.put(torch.randn(131072 if step == 30 else 8192, 1024, device="cuda"))


threading.Thread(target=load, daemon=True).start()


def train() -> None:
    for _ in range(40):
        loss = model(ready.get()).square().mean()  # asks
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train()
