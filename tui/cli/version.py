"""``gpu-workbench --version``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from tui.kit.command_line.options import Subcommand
from tui.kit.command_line.output import print_line


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a command that takes none."""


def show_version(_options: NoOptions) -> int:
    """Print the version; returns the exit code."""
    print_line(f"gpu-workbench {version('gpu-workbench')}")
    return 0


SUBCOMMAND = Subcommand(NoOptions, lambda _parser: None, show_version)
