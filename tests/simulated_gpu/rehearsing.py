"""Runs ``gpu-workbench rehearse`` on a program, with state and runs of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def rehearse_program(
    folder: Path,
    program: str,
    *options: str,
    words: tuple[str, ...] = (),
    launcher: tuple[str, ...] = (),
    timeout_s: int = 280,
) -> subprocess.CompletedProcess[str]:
    """Rehearse a program's text.

    Args:
        folder: where the program, the state and the runs are stored.
        program: its source.
        options: those of ``rehearse``.
        words: arguments of the program.
        launcher: words between the interpreter and the program, such as those of torchrun.
        timeout_s: seconds after which it counts as hanging.
    """
    script = folder / "train.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    command = [sys.executable, "-m", "tui", "rehearse", *options]
    command += ["--", sys.executable, *launcher, str(script), *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "80"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
    )
