"""Ask for a tensor that no such GPU holds."""

import torch

x = torch.empty(1 << 20, 1 << 20, device="cuda")  # asks
