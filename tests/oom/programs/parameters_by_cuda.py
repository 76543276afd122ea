"""Call .cuda() on a model that does not fit."""

import torch

with torch.device("meta"):
    model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192) for _ in range(48)))
model.to_empty(device="cuda")  # asks
