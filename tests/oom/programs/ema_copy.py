"""Copy the model for an exponential moving average."""

import copy

import torch

model = torch.nn.Sequential(
    *(torch.nn.Linear(8192, 8192, bias=False, device="cuda") for _ in range(18))
).requires_grad_(False)
ema = copy.deepcopy(model)  # asks
