"""Subtract (N,) from (N, 1): every pair instead of every element."""

import torch

output = torch.randn(200_000, 1, device="cuda")
target = torch.randn(200_000, device="cuda")
loss = (output - target).square().mean()  # asks
