"""A data set caches each sample on the GPU in itself when it is first read."""

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self._cache: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index not in self._cache:
            self._cache[index] = torch.randn(3, 1024, 1024, device="cuda")  # asks leaks
        return self._cache[index]


model = torch.nn.Linear(1024, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for images in DataLoader(Images(), batch_size=16):  # asks
    model(images).square().mean().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
