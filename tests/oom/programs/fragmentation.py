"""Free every second of many blocks, then ask for one larger than any hole."""

import torch


def fragment() -> torch.Tensor:
    blocks = [torch.empty(9 << 20, dtype=torch.uint8, device="cuda") for _ in range(696)]
    held = blocks[::2]
    del blocks
    large = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")  # asks
    return large[: len(held)]


fragment()
