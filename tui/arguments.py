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
    files: list[str] = field(default_factory=list)
    """Of workloads that the user brings; absolute paths."""
    demo: str = ""
    """The group to step through from the start."""
    snapshot: str = ""
    """A snapshot file that the workbench opens."""
    oom_text: str = ""
    """File with the text of exceptions, ``-`` for standard input; empty for none."""
    markdown: bool = False
    redact: bool = False
    at: int | None = None
    """Number of an event of a snapshot."""
    at_peak: bool = False
    top: int = 10
    event_range: tuple[int, int | None] = (0, None)
    """First and last entry of a snapshot to keep."""
    minimal_size: int = 0
    """Bytes: smaller allocations of a snapshot are left out."""
