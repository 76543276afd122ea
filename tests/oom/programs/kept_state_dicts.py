"""Keep the weights of each epoch on the GPU to average them later."""

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    checkpoints = []
    for _ in range(500):
        model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        checkpoints.append({k: v.clone() for k, v in model.state_dict().items()})  # asks leaks


train()
