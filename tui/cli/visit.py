"""The workbench of one visit to ``serve``, in a process of its own."""

from __future__ import annotations

import signal
import sys

from tui.cli import main as program
from workloads.protocol.process import die_with_parent


def main() -> int:
    """Run the workbench; returns its exit code.

    The first argument is the server's pid: this process ends when the server does, however that
    ends. The other arguments are the workbench's.
    """
    die_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
    return program.main()
