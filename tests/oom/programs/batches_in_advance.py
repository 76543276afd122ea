"""Move all batches to the GPU, which takes long; the model does not fit beside them."""

import time

import torch


def load() -> "list[torch.Tensor]":
    batches = []
    for _ in range(60):
        time.sleep(0.3)
        batches.append(torch.zeros(25 << 20, device="cuda"))
    return batches


data = load()
model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(30))).cuda()  # asks
