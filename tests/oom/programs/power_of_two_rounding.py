"""Lose memory to roundup_power2_divisions."""

import os

os.environ["PYTORCH_ALLOC_CONF"] = "roundup_power2_divisions:2"
import torch

blocks = [
    torch.empty(33 << 20, dtype=torch.uint8, device="cuda")  # asks
    for _ in range(200)
]
