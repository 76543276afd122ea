"""Capture a graph for each shape, each with a pool of its own."""

import torch

model = torch.nn.Linear(4096, 4096).cuda().requires_grad_(False)
graphs: list[tuple[torch.cuda.CUDAGraph, int]] = []


def capture(batch: int) -> None:
    x = torch.randn(batch, 4096, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)  # asks
        for _ in range(6):
            out = model(out)  # asks
    graphs.append((graph, batch))


for batch in range(8192, 80 * 8192, 1024):
    capture(batch)
