"""Double the batch every three steps until it does not fit."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    for step in range(100):
        x = torch.randn(1024 << (step // 3), 1024, device="cuda")
        loss = model(x).square().mean()  # asks
        loss.backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
