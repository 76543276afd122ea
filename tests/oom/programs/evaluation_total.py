"""Add up a loss after the training, in a loop of the module, without item() or no_grad()."""

import torch

model = torch.nn.Sequential(
    torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)
).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    model(torch.randn(64, 4096, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()

total = 0
for _ in range(1000):
    x = torch.randn(4096, 4096, device="cuda")  # asks
    total += model(x).square().mean()  # asks
