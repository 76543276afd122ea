"""Keep the loss of each sample of every step, with its graph."""

import torch

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses: list[torch.Tensor] = []


def train() -> None:
    for _ in range(500):
        x = torch.randn(8192, 1024, device="cuda")  # asks
        loss = (model(x) - x).square()  # asks
        losses.append(loss)  # leaks
        loss.mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
