"""Start each phase with a new optimizer, and keep the schedulers of the earlier ones."""

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(3000, 3000) for _ in range(12))).cuda()
schedulers: "list[torch.optim.lr_scheduler.LRScheduler]" = []


def train() -> None:
    for phase in range(20):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 / (phase + 1))
        schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 10))
        for _ in range(5):
            model(torch.randn(64, 3000, device="cuda")).mean().backward()  # asks
            optimizer.step()  # asks
            optimizer.zero_grad()
            schedulers[-1].step()


train()
