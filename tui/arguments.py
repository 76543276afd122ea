"""What was asked for on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from workloads.protocol import Budget


class UsageError(Exception):
    """Arguments that cannot be carried out: one line that says what, why and what to do."""


@dataclass
class Arguments:
    """What was asked for, with the defaults for what was not."""

    command: Callable[[Arguments], int]
    python: str = sys.executable
    json: bool = False
    mouse: bool = True
    readonly: bool = False
    names: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    everything: bool = False
    devices: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    budget: Budget = "normal"
    flag: str = ""
    flag_values: tuple[bool, bool] = (False, True)
    pairs: int | None = None
