"""Invented ceilings for this machine, so that only tests about ceilings measure any."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tui.core.state_folder import StoredCeilings
from workloads.protocol import wire
from workloads.protocol.results import COPY, Ceiling

KINDS = ("float64", "float32", "float16", "bfloat16", COPY)
OUT_OF_REACH = 1e18
"""FLOP/s or byte/s: an exceeded ceiling would be measured again."""


@cache
def made_up() -> tuple[Ceiling, ...]:
    """Return one ceiling of each kind, under the conditions of this machine's CPU."""
    # Imported here, as it takes seconds, and most tests that share this module do not need it.
    import torch

    from workloads.limits import limit_lookup

    under = limit_lookup.conditions(torch.device("cpu"))
    return tuple(Ceiling(kind, OUT_OF_REACH, "made up", 1.0, under) for kind in KINDS)


def keep(state: Path) -> None:
    """Store them in the state folder where a program looks for them."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "ceilings.json").write_bytes(wire.encode(StoredCeilings(made_up())))
