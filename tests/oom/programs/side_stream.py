"""Leave memory cached on a side stream, then ask for pieces of that size on the main one."""

import torch


def use() -> torch.Tensor:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        held = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(696)]
        kept = held[::2]
    del held
    mine = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(100)]  # asks
    return mine[0][: len(kept)]


use()
