"""Record a training step's launches once in a CUDA graph, and replay them with one call."""

from collections.abc import Callable

import torch
from torch import nn
from torch.cuda import CUDAGraph, Stream
from torch.utils.benchmark import Timer


def launch(model: nn.Module, optimizer: torch.optim.Optimizer, *data: torch.Tensor) -> None:
    inputs, targets = data
    optimizer.zero_grad(set_to_none=True)  # backward makes new ones, in the graph's own memory
    nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()


def capture(step: Callable[[], None], stream: Stream, warm_ups: int) -> CUDAGraph:
    stream.wait_stream(current := torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream):
        for _ in range(warm_ups):  # what a first step loads and allocates has to be there before
            step()
    current.wait_stream(stream)
    graph = CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("CUDA graphs need a CUDA GPU.")
        raise SystemExit(0)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8)]
    model, inputs, targets = nn.Sequential(*layers).cuda(), *torch.randn(2, 32, 64, device="cuda")
    step = model, torch.optim.SGD(model.parameters(), lr=0.1), inputs, targets
    graph = capture(lambda: launch(*step), Stream(), 3)
    for call in ("launch(*step)", "graph.replay()"):
        print(Timer(call, globals=globals()).blocked_autorange())
    inputs.copy_(torch.randn(32, 64))  # a replay reads the captured tensors: copy new data there
