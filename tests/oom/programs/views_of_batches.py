"""Store one row of each batch: a view, which keeps the whole batch."""

import torch

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples: "list[torch.Tensor]" = []


def train() -> None:
    for _ in range(3000):
        x = torch.randn(8192, 1024, device="cuda")  # asks
        model(x).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()
        samples.append(x[0])  # leaks


train()
