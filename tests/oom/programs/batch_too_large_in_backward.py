"""Fit in forward and not in backward."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(10) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU()))
).cuda()


def train(batch: int) -> None:
    x = torch.randn(batch, 1024, device="cuda")
    loss = model(x).square().mean()
    loss.backward()  # asks


train(batch=143360)
