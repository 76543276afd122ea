"""Run a workload's script as whoever copies it does: alone in a folder, by Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import workloads.scripts

SCRIPTS = sorted(Path(workloads.scripts.__path__[0]).glob("[!_]*.py"))
LONGEST_S = 110


def run_copy(script: Path, folder: Path) -> str:
    """Return what a copy of a script in the folder prints; it must succeed."""
    copied = folder / "copied.py"
    copied.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(copied)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
