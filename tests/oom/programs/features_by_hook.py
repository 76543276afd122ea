"""Store each layer's output of the newest pass by hooks; then a batch is too large."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(20) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
features: dict[str, torch.Tensor] = {}


def store(name: str) -> None:
    def hook(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
        features[name] = output

    model.get_submodule(name).register_forward_hook(hook)


for name, _ in model.named_children():
    store(name)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    for step in range(20):
        loss = model(torch.randn(4096 if step < 12 else 65536, 1024, device="cuda"))  # asks
        loss.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


train()
