"""Add up the loss with its graph, and run out of memory after a few dozen steps."""

import torch

model = torch.nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.Adam(model.parameters())


def train() -> None:
    total = 0
    for _ in range(1000):
        x = torch.randn(4096, 4096, device="cuda")  # asks
        loss = model(x).square().mean()  # asks
        loss.backward(retain_graph=True)  # asks
        optimizer.step()
        optimizer.zero_grad()
        total += loss  # leaks


train()
