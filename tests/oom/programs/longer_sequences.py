"""Train on sequences sorted by length: each step needs more than the one before."""

import torch

model = torch.nn.TransformerEncoderLayer(512, 8, batch_first=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    for length in range(256, 8192, 512):
        x = torch.randn(16, length, 512, device="cuda")
        loss = model(x).square().mean()  # asks
        loss.backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
