"""Add up the losses of a step's micro-batches for one backward; later ones are larger."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(6) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train(micro_batches: int) -> None:
    for step in range(20):
        loss = torch.zeros((), device="cuda")
        for _ in range(micro_batches):
            x = torch.randn(2048 if step < 6 else 8192, 1024, device="cuda")
            loss = loss + model(x).square().mean()  # asks
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train(32)
