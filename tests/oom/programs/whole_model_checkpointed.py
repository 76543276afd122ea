"""Checkpoint the whole model as one part: backward recomputes and keeps everything."""

import torch
from torch.utils.checkpoint import checkpoint

model = torch.nn.Sequential(
    *(layer for _ in range(24) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train() -> None:
    for _ in range(10):
        x = torch.randn(49152, 1024, device="cuda", requires_grad=True)
        out: torch.Tensor = checkpoint(model, x, use_reentrant=False)
        out.square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
