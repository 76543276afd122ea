"""Grow a key-value cache by torch.cat, token after token."""

import torch

LAYERS, HEADS, WIDTH = 8, 32, 128
project = torch.nn.Linear(HEADS * WIDTH, HEADS * WIDTH).cuda().requires_grad_(False)


def generate(batch: int, tokens: int) -> None:
    cache = [torch.empty(batch, 0, HEADS * WIDTH, device="cuda") for _ in range(LAYERS)]
    for _ in range(tokens):
        token = torch.randn(batch, 1, HEADS * WIDTH, device="cuda")
        for layer in range(LAYERS):
            key = project(token)
            cache[layer] = torch.cat([cache[layer], key], dim=1)  # asks leaks
            token = token + cache[layer].mean(dim=1, keepdim=True)  # asks


generate(batch=128, tokens=2000)
