"""Train with momentum, whose buffers SGD makes in its first step and stores at its end."""

import torch

model = torch.nn.Sequential(
    *(torch.nn.Linear(8192, 8192, bias=False, device="cuda") for _ in range(10))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    model(torch.randn(64, 8192, device="cuda")).sum().backward()
    optimizer.step()  # asks
    optimizer.zero_grad()
