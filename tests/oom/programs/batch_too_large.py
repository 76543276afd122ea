"""Start with a batch whose activations do not fit, in forward."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(40) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batch: int) -> None:
    for _ in range(10):
        x = torch.randn(batch, 1024, device="cuda")
        loss = model(x).square().mean()  # asks
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train(batch=65536)
