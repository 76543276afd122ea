"""Give each loss of an evaluation with its graph to a meter, which adds it up."""

import torch

model = torch.nn.Sequential(
    torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)
).cuda()
optimizer = torch.optim.Adam(model.parameters())


class Meter:
    """A sum over batches."""

    total: torch.Tensor | float = 0.0

    def update(self, value: torch.Tensor) -> None:
        self.total = self.total + value


def train() -> None:
    for _ in range(20):
        model(torch.randn(64, 4096, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def check(meter: Meter) -> None:
    for _ in range(1000):
        meter.update(model(torch.randn(2048, 4096, device="cuda")).square().mean())  # asks


train()
check(Meter())
