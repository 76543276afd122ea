"""The command line in the test's own process: a Python of its own for each case would cost more."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO
from unittest.mock import patch

from tui.cli.main import main


@dataclass(frozen=True, slots=True)
class Done:
    """The exit code of a command and what it wrote."""

    code: int
    out: str
    err: str


def run_here(*arguments: str) -> Done:
    """Run the program with these arguments, for commands that start no screen."""
    out, err = io.StringIO(), io.StringIO()
    return Done(exit_code_of(arguments, out, err), out.getvalue(), err.getvalue())


def exit_code_of(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run the program with these streams as its output and errors; return its exit code."""
    with (
        # --ascii also sets a variable, for the children.
        patch.dict(os.environ),
        patch.object(sys, "argv", ["gpu-workbench", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            return main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1
