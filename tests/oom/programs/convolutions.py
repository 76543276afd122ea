"""Let cuDNN search with workspaces for some steps; then an image is too large."""

import torch

torch.backends.cudnn.benchmark = True
model = torch.nn.Sequential(
    *(layer for _ in range(6) for layer in (torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU()))
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    for size in (64, 64, 96, 96, 128, 128, 64, 128, 512):
        images = torch.randn(16, 64, size, size, device="cuda")
        loss = model(images).square().mean()  # asks
        loss.backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
