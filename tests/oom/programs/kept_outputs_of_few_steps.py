"""Outputs are kept whose graphs hold their inputs; the program fails within a second."""

import torch

torch.manual_seed(0)
kept = []
model = torch.nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10_000):
    batch = torch.randn(8192, 4096, device="cuda")
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()  # asks
    optimizer.step()
    kept.append(model(batch))  # leaks
