"""Fit all of Adam's state, and not the temporaries of its foreach implementation."""

import torch

model = torch.nn.Sequential(
    *(torch.nn.Linear(4096, 4096, bias=False, device="cuda") for _ in range(25))
)
optimizer = torch.optim.Adam(model.parameters(), foreach=True)
for _ in range(3):
    loss = model(torch.randn(16, 4096, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()  # asks
    optimizer.zero_grad()
