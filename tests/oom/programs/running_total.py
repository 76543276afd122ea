"""Add up the loss without item(): the total holds the graphs of all steps."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    total = torch.zeros((), device="cuda")
    for step in range(500):
        x = torch.randn(8192, 1024, device="cuda")
        loss = (model(x) - x).square().mean()  # asks
        total = total + loss  # leaks
        loss.backward(retain_graph=True)  # asks
        optimizer.step()
        optimizer.zero_grad()
        if step % 1000 == 999:
            print(total.item())


train()
