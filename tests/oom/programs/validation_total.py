"""Add up the validation loss with graphs on, after epochs of training."""

import torch

model = torch.nn.Sequential(
    *(layer for _ in range(6) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU()))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def validate() -> torch.Tensor:
    model.eval()
    total = torch.zeros((), device="cuda")
    for _ in range(200):
        total += model(torch.randn(4096, 1024, device="cuda")).square().mean()  # asks
    return total / 200


for _ in range(20):
    model(torch.randn(4096, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(validate())
