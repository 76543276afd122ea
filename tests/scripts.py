"""Run a workload's script as whoever copies it does: alone in a folder, by Python."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import workloads.scripts

SCRIPTS = sorted(Path(workloads.scripts.__path__[0]).glob("[!_]*.py"))
LONGEST_S = 110
ABORTED = "terminate called without an active exception"
"""Last words of a program that ended well but for a thread of torch's autograd that outlived the
interpreter: https://github.com/pytorch/pytorch/issues/117762."""


def run_copy(script: Path, folder: Path) -> str:
    """Return what a copy of a script in the folder prints; it must succeed.

    A race of torch's own at the very end of the interpreter counts as success.
    """
    copied = folder / "copied.py"
    copied.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(copied)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    if done.returncode != -signal.SIGABRT or not done.stderr.strip().endswith(ABORTED):
        assert done.returncode == 0, done.stderr
    return done.stdout
