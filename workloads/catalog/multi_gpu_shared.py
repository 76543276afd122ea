"""The model that the multi-GPU workloads share. Needs torch: imported when one is run."""

from __future__ import annotations

import torch

from workloads.place import SEED, Place


def perceptron(on: Place, width: int) -> torch.nn.Module:
    """Three hidden layers, and the same weights in every process."""
    torch.manual_seed(SEED)
    layers: list[torch.nn.Module] = []
    for _ in range(3):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(on.device)
