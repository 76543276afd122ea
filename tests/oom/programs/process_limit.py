"""Limit this process to a third of the GPU."""

import torch

torch.cuda.set_per_process_memory_fraction(0.3)
blocks = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(30)]  # asks
