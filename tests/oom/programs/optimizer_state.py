"""Fit parameters and gradients; Adam's state does not fit."""

import torch

model = torch.nn.Sequential(
    *(torch.nn.Linear(4096, 4096, bias=False, device="cuda") for _ in range(36))
)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = model(torch.randn(16, 4096, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()  # asks
    optimizer.zero_grad(set_to_none=False)
