"""Fit the parameters; their gradients do not fit."""

import torch

model = torch.nn.Sequential(
    *(torch.nn.Linear(8192, 8192, bias=False, device="cuda") for _ in range(18))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(16, 8192, device="cuda")).square().mean()
loss.backward()  # asks
