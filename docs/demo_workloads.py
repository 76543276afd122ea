"""A workload of one's own, for the demo: an evaluation that keeps tensors it no longer needs.

``gpu-workbench --workloads docs/demo_workloads.py`` has it in its table. It ends in a real
OutOfMemoryError at a stated budget. Where ``DEMO_SNAPSHOT`` names a file, torch's memory history up
to that moment is written there, for the snapshot tab.
"""

from __future__ import annotations

import os
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


@workload(
    group="mine",
    title="an evaluation that leaks",
    about="The losses of an evaluation are added up as tensors and without torch.no_grad(): each "
    "keeps its graph, and the graph keeps all activations. Memory grows by the same amount with "
    "each batch, until a budget ends it with a real OutOfMemoryError.",
    look_for="The peak memory, and the snapshot that was written when memory ran out: its timeline "
    "is a staircase, and its largest site is the line that makes the activations.",
    devices=("cuda",),
)
def leaking_evaluation(
    on: Place,
    batches: Annotated[int, whole(1, 10_000, "batches of the evaluation")] = 100,
    batch: Annotated[int, whole(1, 65_536, "samples of each")] = 2048,
    width: Annotated[int, whole(1, 16_384, "width of the layers")] = 2048,
    depth: Annotated[int, whole(1, 256, "layers")] = 6,
    mib: Annotated[int, whole(64, 65_536, "budget, MiB")] = 6144,
) -> Case:
    import torch

    on.require(mib * MIB, f"the budget of {mib} MiB")
    if os.environ.get(VARIABLE):
        _keep_history(os.environ[VARIABLE])
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).to(on.device)
    inputs, targets = on.randn(batch, width), on.randn(batch, 10)
    total = torch.cuda.get_device_properties(on.device).total_memory
    torch.cuda.set_per_process_memory_fraction(mib * MIB / total, on.device)

    def timed() -> torch.Tensor:
        total_loss = torch.zeros((), device=on.device)
        for _ in range(batches):
            total_loss = total_loss + torch.nn.functional.mse_loss(model(inputs), targets)
        return total_loss

    def cleanup() -> None:
        torch.cuda.set_per_process_memory_fraction(1.0, on.device)
        torch.cuda.memory._record_memory_history(None)  # noqa: SLF001

    return Case(timed, clock="wall", item=batches * batch, cleanup=cleanup)
