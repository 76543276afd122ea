"""Samples of the devices and the host as JSON lines: the ``main`` of the child."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tui.core.child.inside import (
    ParentChannel,
    end_by_signals_alone,
    end_with_parent,
    interval_s,
    quit_now,
)

NO_PROC = (
    "the figures of this machine are read from /proc, which is not there: mount it, as with"
    " mount -t proc proc /proc"
)


def has_proc(proc: Path = Path("/proc")) -> bool:
    """Return whether processor, memory and processes can be read; other systems ask otherwise."""
    return sys.platform != "linux" or (proc / "stat").exists()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tui.devices.monitor", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    serving = modes.add_parser("serve", help="a sample at each tick, until standard input closes")
    serving.add_argument("--interval", type=interval_s, default=1.0, metavar="S", help="seconds")
    modes.add_parser("once", help="one sample")
    return parser.parse_args()


def main() -> None:
    """Run the monitor; it never returns."""
    arguments = _arguments()
    if not has_proc():
        # The front end tells what is said last.
        sys.exit(NO_PROC)
    parent = ParentChannel()
    end_by_signals_alone()
    # The rest is imported after the first words: psutil takes longer than the front end should
    # wait to know that there is a monitor.
    if arguments.mode == "serve":
        end_with_parent()
        from tui.devices.monitor.messages import VERSION, MonitorHello

        parent.send(MonitorHello(version=VERSION, pid=os.getpid()))
        from tui.devices.monitor.monitor import serve

        serve(parent, arguments.interval)
    else:
        from tui.devices.monitor.monitor import send_one_sample

        send_one_sample(parent)
    quit_now()


if __name__ == "__main__":
    main()
