"""Keep unfinished generators; each holds its batch."""

from collections.abc import Iterator

import torch

streams: list[Iterator[float]] = []


def stream() -> Iterator[float]:
    batch = torch.randn(8192, 1024, device="cuda")  # asks
    for rows in batch.split(4096):
        yield float(rows.mean())  # asks


for _ in range(500):
    values = stream()
    next(values)
    streams.append(values)  # leaks
