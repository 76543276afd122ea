"""Train LoRA adapters, but forget to freeze the base: its gradients are computed and kept."""

import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False, device="cuda")
        self.up = nn.Linear(rank, base.out_features, bias=False, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.base(x) + self.up(self.down(x))
        return out


model = nn.Sequential(*(LoRA(nn.Linear(4096, 4096, device="cuda")) for _ in range(64)))
adapters = [each for name, each in model.named_parameters() if "up" in name or "down" in name]
optimizer = torch.optim.AdamW(adapters)


def train() -> None:
    for _ in range(10):
        x = torch.randn(1024, 4096, device="cuda")
        loss = model(x).square().mean()
        loss.backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
