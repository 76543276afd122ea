"""Keep the losses of the first step's micro-batches for one backward."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(6) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for _ in range(64):
    x = torch.randn(4096, 1024, device="cuda")
    losses.append(model(x).square().mean())  # asks
loss = torch.stack(losses).mean()
loss.backward()
optimizer.step()
