"""Memoize a function that returns tensors, with keys that never come again."""

import functools

import torch


@functools.cache
def positions(length: int) -> torch.Tensor:
    return torch.arange(length * 8192, device="cuda", dtype=torch.float32)  # asks leaks


for length in range(500, 2000):
    positions(length).mean()
