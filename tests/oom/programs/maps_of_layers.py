"""Append each layer's output to a list of the layer, in its forward."""

import torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(1024, 1024)
        self.maps: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.linear(x))  # asks
        self.maps.append(y.detach())  # leaks
        return y


model = torch.nn.Sequential(*(Block() for _ in range(6))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    for _ in range(200):
        model(torch.randn(2048, 1024, device="cuda")).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
