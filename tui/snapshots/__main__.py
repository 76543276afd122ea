"""``python -m tui.snapshots``: read a snapshot in a process that may die of it; JSON lines."""

from __future__ import annotations

import argparse
import os

from tui.devices import channel


def main() -> None:
    """Serve the process that started this one; never returns."""
    parser = argparse.ArgumentParser(prog="python -m tui.snapshots", description=__doc__)
    parser.add_argument("--input", type=int, metavar="FD", help="the descriptor that - stands for")
    arguments = parser.parse_args()
    protocol = channel.separate_protocol()
    channel.end_by_signals_alone()
    channel.end_with_parent()
    from tui.snapshots.messages import VERSION, ReaderHello
    from workloads.wire import encode

    channel.send(protocol, encode(ReaderHello(VERSION, os.getpid())))
    from tui.snapshots.reader import serve

    serve(protocol, arguments.input)
    channel.quit_now()


if __name__ == "__main__":
    main()
