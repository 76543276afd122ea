"""Append every output to an attribute of a metric object."""

import torch


class Metric:
    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def update(self, out: torch.Tensor) -> None:
        self.outputs.append(out)  # leaks


model = torch.nn.Linear(1024, 1024).cuda()
metric = Metric()
with torch.no_grad():
    for _ in range(500):
        out = model(torch.randn(8192, 1024, device="cuda"))  # asks
        metric.update(out)
