"""Carry a recurrent state from batch to batch without detach()."""

import torch

cell = torch.nn.RNNCell(1024, 1024).cuda()


def run() -> torch.Tensor:
    hidden = torch.zeros(8192, 1024, device="cuda")
    for _ in range(500):
        x = torch.randn(8192, 1024, device="cuda")  # asks
        hidden = cell(x, hidden)  # asks leaks
    return hidden


run()
