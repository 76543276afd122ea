"""Collect predictions in an evaluation without no_grad."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()).cuda()


def evaluate() -> torch.Tensor:
    model.eval()
    preds = []
    for _ in range(500):
        x = torch.randn(8192, 1024, device="cuda")
        out = model(x)  # asks
        preds.append(out)  # leaks
    return torch.cat(preds)


evaluate()
