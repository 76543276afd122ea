"""Keep each step's loss in a history for a later backward through all of them."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Tanh()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Trainer:
    def __init__(self) -> None:
        self.history: list[torch.Tensor] = []

    def step(self) -> None:
        x = torch.randn(8192, 1024, device="cuda")
        loss = model(x).square().mean()  # asks
        loss.backward(retain_graph=True)  # asks
        self.history.append(loss)  # leaks
        optimizer.step()
        optimizer.zero_grad()


trainer = Trainer()
for _ in range(500):
    trainer.step()
