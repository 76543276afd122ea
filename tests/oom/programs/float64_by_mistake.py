"""Convert the input to float64, and with it the whole computation."""

import torch


def distances(points: torch.Tensor) -> torch.Tensor:
    wide = points.double()
    return torch.cdist(wide, wide)  # asks


distances(torch.randn(40_000, 64, device="cuda"))
