"""Accumulate gradients over micro-batches by a growing sum and backward(retain_graph=True)."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU()))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
ACCUMULATE = 64


def train() -> None:
    for _ in range(10):
        total = torch.zeros((), device="cuda")
        for _ in range(ACCUMULATE):
            x = torch.randn(16384, 1024, device="cuda")  # asks
            total = total + model(x).square().mean() / ACCUMULATE  # asks
            total.backward(retain_graph=True)  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
