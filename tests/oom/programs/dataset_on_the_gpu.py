"""Move the whole data set to the GPU, then train."""

import torch

images = torch.empty(100_000, 3, 72, 72, dtype=torch.float32, device="cuda")
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 72 * 72, 4096)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    for start in range(0, len(images), 32768):
        out = model(images[start : start + 32768])  # asks
        out.square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
