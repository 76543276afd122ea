"""Run out of memory in rank 1 alone, started by torchrun."""

import os

import torch

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())
model = torch.nn.Linear(1024, 1024).cuda()
outputs = []
for _ in range(500 if rank == 1 else 10**9):  # rank 0 goes on until it is ended
    out = model(torch.randn(8192, 1024, device="cuda"))  # asks
    if rank == 1:
        outputs.append(out.detach())  # leaks
