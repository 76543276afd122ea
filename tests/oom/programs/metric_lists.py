"""Collect predictions, targets and errors in three lists of a metric that is never reset."""

import torch


class Metric:
    def __init__(self) -> None:
        self.preds: list[torch.Tensor] = []
        self.targets: list[torch.Tensor] = []
        self.errors: list[torch.Tensor] = []

    def update(self, pred: torch.Tensor, target: torch.Tensor) -> None:
        self.preds.append(pred.detach())  # leaks
        self.targets.append(target)  # leaks
        self.errors.append((pred.detach() - target).square())  # asks leaks


model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
metric = Metric()


def train() -> None:
    for _ in range(200):
        x = torch.randn(4096, 1024, device="cuda")  # asks
        pred = model(x)  # asks
        metric.update(pred, x)
        pred.square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
