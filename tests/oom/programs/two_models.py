"""Load the next model before the one before is deleted."""

import torch


def load() -> torch.nn.Module:
    return torch.nn.Sequential(
        *(torch.nn.Linear(4096, 4096, bias=False, device="cuda") for _ in range(64))  # asks
    )


model = load()
model = load()
