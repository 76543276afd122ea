"""Workloads of one's own, for the demo: a training step, and an evaluation that leaks.

``gpu-workbench --workloads docs/demo_workloads.py`` has them in its table. The evaluation keeps
tensors that it no longer needs, and ends in a real OutOfMemoryError at a stated budget. Where
``DEMO_SNAPSHOT`` names a file, torch's memory history up to that moment is written there, for the
snapshot tab.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

from workloads.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

MIB = 2**20
VARIABLE = "DEMO_SNAPSHOT"


def _keep_history(file: str) -> None:
    """Record what the allocator does, and write it to a file once memory has run out."""
    import torch

    written: list[str] = []

    def out_of_memory(_device: int, _requested: int, _total: int, _free: int) -> None:
        # cuDNN may try again with less: only the first failure shows why.
        if not written:
            written.append(file)
            torch.cuda.memory._dump_snapshot(file)  # noqa: SLF001 (as torch's documents say)

    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")  # noqa: SLF001
    # Called before the exception unwinds, so the snapshot shows what was allocated then.
    attach = torch._C._cuda_attach_out_of_memory_observer  # type: ignore[attr-defined]  # noqa: SLF001
    attach(out_of_memory)


def _build_transformer(width: int, depth: int) -> torch.nn.Module:
    """Return a small transformer: blocks of attention and of a feed-forward network."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            queries, keys, values = self.project(x).chunk(3, dim=-1)
            weights = torch.softmax(queries @ keys.mT * width**-0.5, dim=-1)
            mixed: torch.Tensor = self.out(weights @ values)
            return mixed

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.down(nn.functional.gelu(self.up(x)))
            return result

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.feed_forward = Attention(), FeedForward()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(self.before(x))
            result: torch.Tensor = x + self.feed_forward(self.between(x))
            return result

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(depth))
            self.head = nn.Linear(width, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = block(x)
            result: torch.Tensor = self.head(x.mean(dim=1))
            return result

    return Transformer()


def _evaluate(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    batches: int,
    loading_s: float,
) -> torch.Tensor:
    """Return the sum of the losses, whose graph keeps the activations of all batches.

    Args:
        model: the model to evaluate.
        inputs: a batch, which stands for every batch.
        targets: its targets.
        batches: number of batches.
        loading_s: seconds that loading a batch would take.
    """
    import torch

    total = torch.zeros((), device=inputs.device)
    for _ in range(batches):
        time.sleep(loading_s)
        total = total + torch.nn.functional.mse_loss(model(inputs), targets)
    return total


@workload(
    group="mine",
    title="training step of a wide network",
    about="Forward, backward and an optimizer step of linear layers with GELU. Each launch "
    "has much to compute, so that the GPU is far ahead.",
    look_for="The speed-up, and how it falls with a smaller batch or narrower layers.",
)
def training_step(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples")] = 256,
    width: Annotated[int, whole(1, 16_384, "width of the layers")] = 1024,
    depth: Annotated[int, whole(1, 256, "layers")] = 3,
) -> Case:
    import torch

    numbers = depth * width * (3 * width + 6 * batch)
    on.require(4 * numbers, "the layers with their gradients and activations")
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers).to(on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = on.randn(batch, width)

    def timed() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return Case(timed, clock="wall", item=batch, flop=6 * batch * width * width * depth)


@workload(
    group="mine",
    title="an evaluation that leaks",
    about="The losses of an evaluation are added up as tensors and without torch.no_grad(): each "
    "keeps its graph, and the graph keeps all activations. Memory grows by the same amount with "
    "each batch, until a budget or the full device ends it with a real OutOfMemoryError.",
    look_for="The peak memory, and the snapshot that was written when memory ran out: its timeline "
    "is a staircase, its largest site is a line that makes activations, and its flame view shows "
    "which layers made them.",
    devices=("cuda",),
)
def leaking_evaluation(
    on: Place,
    batches: Annotated[int, whole(1, 10_000, "batches of the evaluation")] = 100,
    batch: Annotated[int, whole(1, 65_536, "sequences of each")] = 16,
    tokens: Annotated[int, whole(1, 65_536, "tokens of a sequence")] = 256,
    width: Annotated[int, whole(1, 16_384, "width of the layers")] = 512,
    depth: Annotated[int, whole(1, 256, "blocks")] = 4,
    mib: Annotated[int, whole(0, 65_536, "budget, MiB; 0: the whole device")] = 6144,
    loading_ms: Annotated[int, whole(0, 10_000, "loading a batch takes so many ms")] = 0,
) -> Case:
    import torch

    if mib:
        on.require(mib * MIB, f"the budget of {mib} MiB")
    if os.environ.get(VARIABLE):
        _keep_history(os.environ[VARIABLE])
    model = _build_transformer(width, depth).to(on.device)
    inputs, targets = on.randn(batch, tokens, width), on.randn(batch, 10)
    total = torch.cuda.get_device_properties(on.device).total_memory
    if mib:
        torch.cuda.set_per_process_memory_fraction(mib * MIB / total, on.device)

    def timed() -> torch.Tensor:
        return _evaluate(model, inputs, targets, batches, loading_ms / 1000)

    def cleanup() -> None:
        torch.cuda.set_per_process_memory_fraction(1.0, on.device)
        torch.cuda.memory._record_memory_history(None)  # noqa: SLF001

    return Case(timed, clock="wall", item=batches * batch, cleanup=cleanup)
