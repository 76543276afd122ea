"""Compute attention scores of all pairs of a long sequence."""

import torch


def attend(length: int, heads: int) -> torch.Tensor:
    q = torch.randn(heads, length, 64, device="cuda")
    k = torch.randn(heads, length, 64, device="cuda")
    scores = q @ k.transpose(-1, -2)  # asks
    return scores.softmax(-1)


attend(length=16384, heads=32)
