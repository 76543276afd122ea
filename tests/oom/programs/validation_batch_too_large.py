"""Validate with graphs on and with a batch that is larger than in training."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(12) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.Adam(model.parameters())


def validate() -> float:
    model.eval()
    return float(model(torch.randn(98304, 1024, device="cuda")).square().mean())  # asks


for _ in range(20):
    model(torch.randn(8192, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
validate()
