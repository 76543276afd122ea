"""What was asked for on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.inventory import Setting
    from workloads.protocol import Budget


class UsageError(Exception):
    """Arguments that cannot be carried out: one line that says what, why and what to do."""


@dataclass(repr=False, eq=False)
class Arguments:
    """What was asked for, with the defaults for what was not."""

    command: Callable[[Arguments], int]
    given: dict[str, Setting] = field(default_factory=dict)
    """What the command line sets of what can be remembered, by the names of ``tui.settings``."""
    python: str = sys.executable
    json: bool = False
    readonly: bool = False
    path_only: bool = False
    """Of the settings, print only where their file is."""
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
    record: str = ""
    """File that what the children say is written to."""
    speed: float = 1.0
    """Of a replay: times the speed of life."""
    loop: bool = False
    shipped: bool = False
    """Replay the recording that comes with the program."""
    port: int = 8000
    served: list[str] = field(default_factory=list)
    """The workbench's own arguments, where it is shown in a browser."""
    bundle: str = ""
    """File that all that ``doctor`` finds is written to."""
    with_names: bool = False
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
