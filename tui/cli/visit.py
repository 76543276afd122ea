"""One visit's workbench: ends with the server that started it, whatever ends that."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from tui.cli.main import main as workbench
from workloads.process import die_with_parent

# Not ``-m``: it would find a folder named tui where we are.
_CODE = (
    "import sys; sys.path = list(filter(None, sys.path)); from tui.cli.visit import main; main()"
)


def command(arguments: Sequence[str]) -> list[str]:
    """What starts the workbench with these arguments; to be used by the process that calls this."""
    return [sys.executable, "-c", _CODE, str(os.getpid()), *arguments]


def main() -> None:
    """Run the workbench; the first argument is the pid of the server."""
    die_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
    sys.exit(workbench())
