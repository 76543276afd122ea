"""Cache most of the memory in a MemPool, then ask for it outside."""

import torch

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    blocks = [torch.empty(512 << 20, dtype=torch.uint8, device="cuda") for _ in range(12)]
del blocks
x = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")  # asks
