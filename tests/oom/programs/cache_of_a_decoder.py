"""Grow keys and values of each layer in a cache object, as libraries do, until they do not fit."""

import torch


class Cache:
    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int) -> torch.Tensor:
        if len(self.keys) <= layer:
            self.keys.append(key)  # leaks
            self.values.append(value)  # leaks
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=1)  # asks leaks
            self.values[layer] = torch.cat([self.values[layer], value], dim=1)  # asks leaks
        return self.keys[layer].mean(dim=1, keepdim=True)


class Layer(torch.nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.project = torch.nn.Linear(1024, 2048)

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        key, value = self.project(x).chunk(2, dim=-1)
        return x + cache.update(key, value, self.number)


layers = torch.nn.ModuleList(Layer(number) for number in range(8)).cuda()


@torch.no_grad()
def generate(batch: int, tokens: int) -> None:
    cache = Cache()
    x = torch.randn(batch, 128, 1024, device="cuda")
    for _ in range(tokens):
        for layer in layers:
            x = layer(x, cache)
        x = x[:, -1:]


generate(64, 4000)
