"""The command line in the test's own process: a Python of its own for each case would cost more."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
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
    argv = ["gpu-workbench", *arguments]
    with (
        patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Done(code, out.getvalue(), err.getvalue())
