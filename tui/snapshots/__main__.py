"""``python -m tui.snapshots``: read a snapshot in an expendable process; JSON lines."""

from __future__ import annotations

import argparse
import os

from tui.core.child.inside import ParentChannel, end_by_signals_alone, end_with_parent, quit_now
from tui.snapshots.reader.messages import VERSION, ReaderHello
from tui.snapshots.reader.serve import serve


def main() -> None:
    """Serve the process that started this one; never returns."""
    parser = argparse.ArgumentParser(prog="python -m tui.snapshots", description=__doc__)
    parser.add_argument("--input", type=int, metavar="FD", help="the descriptor that - stands for")
    arguments = parser.parse_args()
    parent = ParentChannel()
    end_by_signals_alone()
    end_with_parent()
    parent.send(ReaderHello(VERSION, os.getpid()))
    serve(parent, arguments.input)
    quit_now()


if __name__ == "__main__":
    main()
