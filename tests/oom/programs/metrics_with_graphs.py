"""Add a second model's loss, which has no backward pass, to a dictionary of metrics."""

import torch

body = torch.nn.Linear(2048, 2048).cuda()
judge = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.Tanh()).cuda()
optimizer = torch.optim.Adam(body.parameters())
stats = {"judged": 0.0}
for _ in range(2000):
    x = torch.randn(4096, 2048, device="cuda")  # asks
    loss = body(x).pow(2).mean()  # asks
    stats["judged"] += judge(x).pow(2).mean()  # asks leaks
    loss.backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
