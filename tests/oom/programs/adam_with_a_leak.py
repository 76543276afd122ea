"""Leak beside a normal optimizer whose state comes with the first step."""

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train() -> None:
    history = []
    for _ in range(500):
        x = torch.randn(8192, 2048, device="cuda")  # asks
        out = model(x)  # asks
        loss = (out - x).square().mean()  # asks
        loss.backward()  # asks
        optimizer.step()  # asks
        optimizer.zero_grad()
        history.append(out.detach())  # leaks


train()
