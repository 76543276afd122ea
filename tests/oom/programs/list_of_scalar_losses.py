"""Keep the mean loss of every step; the scalar is small, the graph behind it is not."""

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()


def evaluate(epochs: int) -> float:
    losses = []
    for _ in range(epochs):
        x = torch.randn(8192, 1024, device="cuda")
        loss = model(x).square().mean()  # asks
        losses.append(loss)  # leaks
    return sum(float(loss) for loss in losses)


evaluate(500)
