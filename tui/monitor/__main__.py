"""``python -m tui.monitor serve | once``: samples of the devices and the host as JSON lines."""

from __future__ import annotations

import argparse
import os

from tui.child.inside import (
    ParentChannel,
    end_by_signals_alone,
    end_with_parent,
    interval_s,
    quit_now,
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tui.monitor", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    serving = modes.add_parser("serve", help="a sample at each tick, until standard input closes")
    serving.add_argument("--interval", type=interval_s, default=1.0, metavar="S", help="seconds")
    modes.add_parser("once", help="one sample")
    return parser.parse_args()


def main() -> None:
    """Run the monitor; it never returns."""
    arguments = _arguments()
    parent = ParentChannel()
    end_by_signals_alone()
    # The rest is imported after the first words: psutil takes longer than the front end should
    # wait to know that there is a monitor.
    if arguments.mode == "serve":
        end_with_parent()
        from tui.monitor.messages import VERSION, MonitorHello

        parent.send(MonitorHello(version=VERSION, pid=os.getpid()))
        from tui.monitor.monitor import serve

        serve(parent, arguments.interval)
    else:
        from tui.monitor.monitor import once

        once(parent)
    quit_now()


if __name__ == "__main__":
    main()
