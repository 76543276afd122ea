"""Clone all gradients of each step for a plot."""

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
norms = []
for _ in range(500):
    loss = model(torch.randn(64, 2048, device="cuda")).square().mean()
    loss.backward()
    norms.append([p.grad.clone() for p in model.parameters() if p.grad is not None])  # asks leaks
    optimizer.step()
    optimizer.zero_grad()  # frees the gradients before the next backward
