"""Hosts without a network: each is a script that runs the given command, or does something else."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.nvml.fixtures import scripted_library, scripted_nvml
from tui.hosts.address import HostAddress

__all__ = ["boxes", "scripted_library", "scripted_nvml"]

BARE_PYTHON = f'shift; exec {shlex.quote(sys.executable)} -S "$@"'
"""Run the command with this Python in place of the one in it, without site-packages."""


@dataclass(frozen=True)
class Boxes:
    """Creates hosts from scripts in one folder."""

    folder: Path

    @property
    def transport(self) -> str:
        """Return the argument of ``--transport``."""
        return f"sh {shlex.quote(str(self.folder / 'reach'))} {{host}}"

    def add(
        self, name: str, script: str = BARE_PYTHON, variables: Mapping[str, str] | None = None
    ) -> HostAddress:
        """Return a host, whose script gets the command as its arguments."""
        exports = [f"export {key}={shlex.quote(value)}" for key, value in (variables or {}).items()]
        home = self.folder / f"{name}.home"
        home.mkdir()
        lines = [f"export HOME={shlex.quote(str(home))}", f"cd {shlex.quote(str(home))}", *exports]
        (self.folder / f"{name}.sh").write_text("\n".join([*lines, script, ""]), encoding="utf-8")
        return HostAddress(name, ("sh", str(self.folder / "reach"), name), login=f"reach {name}")


@pytest.fixture
def boxes(tmp_path: Path) -> Boxes:
    folder = tmp_path / "boxes"
    folder.mkdir()
    script = f'host=$1; shift; . {shlex.quote(str(folder))}/"$host".sh\n'
    (folder / "reach").write_text(script, encoding="utf-8")
    return Boxes(folder)
