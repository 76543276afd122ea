"""The options of the workbench on the command line."""

from __future__ import annotations

from tui.devices.host_options import add_hosts
from tui.kit.command_line.options import Parser, add_no_store, add_settings
from tui.snapshots import MEMORY_OPTION
from tui.snapshots.options import parse_memory


def add_workbench(parser: Parser) -> None:
    """Add the options of the workbench: appearance, permissions, and the first tab."""
    add_settings(parser)
    add_hosts(parser)
    parser.add_argument("--readonly", action="store_true", help="run nothing and change nothing")
    parser.add_argument("--demo", metavar="GROUP", help="show a group page by page")
    parser.add_argument("--snapshot", metavar="FILE", help="open an allocator snapshot")
    parser.add_argument(
        "--oom-text",
        metavar="FILE",
        help="with --snapshot: the exception's text",
    )
    parser.add_argument(
        MEMORY_OPTION,
        type=parse_memory,
        metavar="SIZE",
        help="limit for reading a snapshot (default: a quarter of what is free)",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="record for replay (.gz: compressed), with the names of host, users and programs",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="record no names, GPU UUIDs, home directories and arguments",
    )
    add_no_store(parser, "storing")
