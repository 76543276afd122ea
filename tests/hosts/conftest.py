"""Hosts without a network: each is a script that runs the given command, or does something else."""

from __future__ import annotations

import os
import shlex
import shutil
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

_REACH = """\
host=$1; shift
if [ -f FOLDER/"$host".boot_id ]; then
  exec unshare -m sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id
    script=$1; shift; . "$script"' FOLDER/"$host".boot_id FOLDER/"$host".sh "$@"
fi
. FOLDER/"$host".sh
"""
"""Script of sh that runs a command on a host; one with a boot id has a mount for it alone."""
NEEDS_MACHINES = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="a boot id of its own is mounted, which needs Linux, root and unshare",
)
"""Mark of the tests whose hosts are machines of their own."""


@dataclass(frozen=True)
class Boxes:
    """Creates hosts from scripts in one folder."""

    folder: Path

    @property
    def transport(self) -> str:
        """Return the argument of ``--transport``."""
        return f"sh {shlex.quote(str(self.folder / 'reach'))} {{host}}"

    def add(
        self,
        name: str,
        script: str = BARE_PYTHON,
        variables: Mapping[str, str] | None = None,
        *,
        boot_id: str | None = None,
    ) -> HostAddress:
        """Return a host.

        Args:
            name: of the host.
            script: gets the command as its arguments.
            variables: of its environment.
            boot_id: in place of the kernel's, so that the host is a machine of its own.
        """
        if boot_id is not None:
            (self.folder / f"{name}.boot_id").write_text(f"{boot_id}\n", encoding="ascii")
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
    place = shlex.quote(str(folder))
    (folder / "reach").write_text(_REACH.replace("FOLDER", place), encoding="utf-8")
    return Boxes(folder)
