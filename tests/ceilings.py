"""Ceilings made up for this box: no run waits for one to be measured, unless it is about that."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tui.core.state_folder import Kept
from workloads.protocol import wire
from workloads.protocol.results import COPY, Ceiling

KINDS = ("float64", "float32", "float16", "bfloat16", COPY)
OUT_OF_REACH = 1e18
"""FLOP/s or byte/s: one that was exceeded would be measured again."""


@cache
def made_up() -> tuple[Ceiling, ...]:
    """One of each kind, under the conditions of this machine's CPU."""
    # Here, as it takes seconds, and most tests that share a module with this do not need it.
    import torch

    from workloads.limits import limit_lookup

    under = limit_lookup.conditions(torch.device("cpu"))
    return tuple(Ceiling(kind, OUT_OF_REACH, "made up", 1.0, under) for kind in KINDS)


def keep(state: Path) -> None:
    """Put them where a program looks whose state folder this is."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "ceilings.json").write_bytes(wire.encode(Kept(made_up())))
