"""A user's workloads that change memory in different ways; the runner reads this file."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from workloads.workload import Case, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

MIB = 2**20
MOST = 512 * MIB


def _declare(
    name: str, behaviour: Callable[[Place, random.Random, list[torch.Tensor]], None]
) -> None:
    def prepare(on: Place) -> Case:
        draw, kept = random.Random(name), list[object]()

        def timed() -> object:
            behaviour(on, draw, kept)  # type: ignore[arg-type]
            return None

        return Case(timed, clock="wall")

    prepare.__name__ = name
    workload(group="allocating", title=name, about=name, look_for=name, devices=("cuda",))(prepare)


def _take(on: Place, size: int) -> torch.Tensor:
    import torch

    return torch.empty(size, dtype=torch.uint8, device=on.device)


def _still(on: Place, _draw: random.Random, kept: list[torch.Tensor]) -> None:
    """Keep the memory in use constant."""
    if not kept:
        kept.append(_take(on, 64 * MIB))


def _spikes(on: Place, draw: random.Random, _kept: list[torch.Tensor]) -> None:
    """Reserve and return memory within a call: torch's figures never show it, NVML's may."""
    import time

    import torch

    held = _take(on, draw.randrange(1, MOST))
    time.sleep(0.01)
    del held
    torch.cuda.empty_cache()


def _grows(on: Place, draw: random.Random, kept: list[torch.Tensor]) -> None:
    """Take more and more memory, then return all."""
    import torch

    kept.append(_take(on, draw.randrange(1, 24 * MIB)))
    if sum(each.numel() for each in kept) > MOST:
        kept.clear()
        torch.cuda.empty_cache()


def _churns(on: Place, draw: random.Random, kept: list[torch.Tensor]) -> None:
    """Allocate many sizes, free them in any order, and empty the cache now and then."""
    import torch

    kept.append(_take(on, draw.randrange(1, 32 * MIB)))
    if len(kept) > 12:
        del kept[draw.randrange(len(kept))]
    if draw.random() < 0.05:
        torch.cuda.empty_cache()


def _stalls(on: Place, draw: random.Random, kept: list[torch.Tensor]) -> None:
    """Stay busy at first, so that torch cannot be queried, and take more each time."""
    import time

    if len(kept) < 16:
        kept.append(_take(on, draw.randrange(MIB, 8 * MIB)))
    if len(kept) < 3:
        time.sleep(2.2)


for _behaviour in (_still, _spikes, _grows, _churns, _stalls):
    _declare(_behaviour.__name__.strip("_"), _behaviour)
