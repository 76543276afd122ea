"""Keep the result of each cell of a notebook in a variable; no backward pass follows."""

import torch

layers = ((torch.nn.Linear(2048, 2048), torch.nn.GELU()) for _ in range(6))
model = torch.nn.Sequential(*(layer for pair in layers for layer in pair)).cuda()

first = model(torch.randn(20_000, 2048, device="cuda"))
second = model(torch.randn(20_000, 2048, device="cuda"))
third = model(torch.randn(20_000, 2048, device="cuda"))
fourth = model(torch.randn(20_000, 2048, device="cuda"))  # asks
fifth = model(torch.randn(20_000, 2048, device="cuda"))  # asks
