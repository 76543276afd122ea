"""Fill a cache that has a limit, and request much before it is reached."""

from collections import OrderedDict

import torch


class Cache:
    """The newest tensors."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.items: OrderedDict[int, torch.Tensor] = OrderedDict()

    def get(self, key: int) -> torch.Tensor:
        if key not in self.items:
            self.items[key] = torch.randn(2048, 4096, device="cuda")  # leaks
            if len(self.items) > self.limit:
                self.items.popitem(last=False)
        return self.items[key]


cache = Cache(180)
model = torch.nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    model(cache.get(step)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 150:
        scores = torch.empty(1024, 1024, 1024, device="cuda")  # asks
