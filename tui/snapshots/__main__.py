"""``python -m tui.snapshots``: read a snapshot in a process that may die of it; JSON lines."""

from __future__ import annotations

import argparse
import os

from tui.core.child.inside import ParentChannel, end_by_signals_alone, end_with_parent, quit_now


def main() -> None:
    """Serve the process that started this one; never returns."""
    parser = argparse.ArgumentParser(prog="python -m tui.snapshots", description=__doc__)
    parser.add_argument("--input", type=int, metavar="FD", help="the descriptor that - stands for")
    arguments = parser.parse_args()
    parent = ParentChannel()
    end_by_signals_alone()
    end_with_parent()
    # Import the rest after the hello message, which the program waits for.
    from tui.snapshots.reader.messages import (
        VERSION,
        ReaderHello,
    )

    parent.send(ReaderHello(VERSION, os.getpid()))
    from tui.snapshots.reader.serve import serve

    serve(parent, arguments.input)
    quit_now()


if __name__ == "__main__":
    main()
