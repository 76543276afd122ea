"""The hosts that the options of a command name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostChoice:
    """The hosts that the options name."""

    host: str | None = None
    no_here: bool = False
    slurm: bool = False
    transport: str | None = None
    host_pythons: Sequence[tuple[str, str]] = ()

    @property
    def names_hosts(self) -> bool:
        """The options name hosts other than this one."""
        return self.host is not None or self.slurm or self.no_here
