"""The child's ``main``: write torch processes and their allocators' figures as JSON lines."""

from __future__ import annotations

import argparse
import os

from tui.allocators.messages import VERSION, WatchHello, WatchTargets
from tui.allocators.process_files import ReadAccess, refusal_of_running
from tui.allocators.watch import AllocatorWatch, lower_priority, serve
from tui.core.child.inside import (
    ParentChannel,
    end_by_signals_alone,
    end_with_parent,
    interval_s,
    quit_now,
)


def _pids(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tui.allocators", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    serving = modes.add_parser("serve", help="write figures until standard input closes")
    serving.add_argument("--interval", type=interval_s, default=0.5, metavar="S", help="seconds")
    serving.add_argument("--pids", type=_pids, default=(), help="watch only these, with commas")
    serving.add_argument("--no-children", action="store_true", help="leave out their children")
    serving.add_argument(
        "--others", action="store_true", help="with --pids: also this user's others"
    )
    serving.add_argument("--listed", type=_pids, default=(), help="processes that NVML lists")
    serving.add_argument(
        "--keep-alive", type=float, metavar="S", help="end without a request for this many seconds"
    )
    serving.add_argument("--steps", action="store_true", help="report the steps of their agents")
    serving.add_argument("--changes", action="store_true", help="write only changes of figures")
    modes.add_parser("check", help="report whether running processes can be read")
    return parser.parse_args()


def main() -> None:
    """Run the watch; it never returns."""
    arguments = _arguments()
    parent = ParentChannel()
    end_by_signals_alone()
    end_with_parent()
    if arguments.mode == "check":
        parent.send(ReadAccess(refusal_of_running()))
        quit_now()
    parent.send(WatchHello(version=VERSION, pid=os.getpid()))
    lower_priority()
    targets = WatchTargets(arguments.pids, not arguments.no_children, arguments.others)
    watch = AllocatorWatch(arguments.interval, targets, arguments.listed, steps=arguments.steps)
    serve(parent, watch, arguments.keep_alive, changes=arguments.changes)
    quit_now()


if __name__ == "__main__":
    main()
