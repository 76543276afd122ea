"""Append each layer's detached output to a list of its own, by hooks."""

from collections import defaultdict
from collections.abc import Callable

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Recorder:
    def __init__(self) -> None:
        self.seen: dict[str, list[torch.Tensor]] = defaultdict(list)
        for name, module in model.named_children():
            module.register_forward_hook(self.hook(name))

    def hook(self, name: str) -> Callable[..., None]:
        def keep(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
            self.seen[name].append(output.detach())  # leaks

        return keep


recorder = Recorder()


def train() -> None:
    for _ in range(200):
        model(torch.randn(2048, 1024, device="cuda")).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
