"""Compile a transformer block: the first call takes seconds, each later one less than before."""

import time
from collections.abc import Callable

import torch
from torch.utils.benchmark import Timer

Model = Callable[[torch.Tensor], torch.Tensor]


def forward(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens)


def train_step(model: Model, optimizer: torch.optim.Optimizer, data: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    return loss


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)  # as the timer does, or the compiled code would use more
    block = torch.nn.TransformerEncoderLayer(128, 4, batch_first=True).eval().to(device)
    tokens = torch.randn(4, 128, 128, device=device)
    compiled, began = torch.compile(block), time.perf_counter()
    try:
        forward(compiled, tokens)
    except RuntimeError as error:  # no C++ compiler, or no Triton for the GPU
        print(f"torch.compile does not work here: {str(error).splitlines()[0]}")
        raise SystemExit(0) from None
    first = time.perf_counter() - began
    eager = Timer("forward(block, tokens)", globals=globals()).timeit(50).median
    later = Timer("forward(compiled, tokens)", globals=globals()).timeit(50).median
    print(f"On {device} a call takes {eager * 1e3:.2f} ms, compiled {later * 1e3:.2f} ms.")
    print(f"The first compiled call took {first:.1f} s: it pays if the later ones save it.")
