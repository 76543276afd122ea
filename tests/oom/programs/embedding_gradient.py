"""Train a large embedding table; its gradient is dense and as large as the table."""

import torch

table = torch.nn.Embedding(8_000_000, 128, device="cuda")
head = torch.nn.Linear(128, 1).cuda()
optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
for _ in range(10):
    ids = torch.zeros(4096, dtype=torch.long, device="cuda")
    head(table(ids)).square().mean().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
