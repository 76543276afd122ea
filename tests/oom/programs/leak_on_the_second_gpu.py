"""Store outputs on a device that is not the current one."""

import torch

model = torch.nn.Linear(2048, 2048).to("cuda:1")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
log = []
for _ in range(3000):
    x = torch.randn(4096, 2048, device="cuda:1")  # asks
    out = model(x)  # asks
    out.sum().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
    log.append(out.detach())  # leaks
