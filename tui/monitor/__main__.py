"""The monitor's ``main``: write samples of the devices and the host as JSON lines."""

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
from tui.monitor.messages import VERSION, MonitorHello
from tui.monitor.monitor import send_one_sample, serve
from tui.monitor.topology import read_gpu_topology

NO_PROC = (
    "the figures of this machine are read from /proc, which is not there: mount it, as with"
    " mount -t proc proc /proc"
)


def has_proc(proc: Path = Path("/proc")) -> bool:
    """Return whether /proc is mounted where the monitor needs it, which is on Linux."""
    return sys.platform != "linux" or (proc / "stat").exists()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tui.monitor", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    serving = modes.add_parser("serve", help="write samples until standard input closes")
    serving.add_argument("--interval", type=interval_s, default=1.0, metavar="S", help="seconds")
    serving.add_argument(
        "--keep-alive", type=float, metavar="S", help="end after so many seconds without a request"
    )
    serving.add_argument("--changes", action="store_true", help="write what changes in a sample")
    modes.add_parser("once", help="write one sample")
    modes.add_parser("topology", help="write how the GPUs are connected")
    return parser.parse_args()


def main() -> None:
    """Run the monitor; it never returns."""
    arguments = _arguments()
    if not has_proc():
        # The front end shows the last line of standard error.
        sys.exit(NO_PROC)
    parent = ParentChannel()
    end_by_signals_alone()
    if arguments.mode == "serve":
        end_with_parent()
        parent.send(MonitorHello(version=VERSION, pid=os.getpid()))
        serve(parent, arguments.interval, arguments.keep_alive, changes=arguments.changes)
    elif arguments.mode == "topology":
        parent.send(read_gpu_topology())
    else:
        send_one_sample(parent)
    quit_now()


if __name__ == "__main__":
    main()
