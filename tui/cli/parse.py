"""Read the arguments: the parser's words become what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.cli import entries, values
from tui.cli.arguments import Arguments, UsageError

if TYPE_CHECKING:
    from workloads.inventory import Setting


def parse(argv: Sequence[str]) -> Arguments:
    """Read the arguments.

    Raises:
        UsageError: a value that cannot be carried out.
        SystemExit: argparse's own end, for ``--help`` and words that it does not know.
    """
    if not argv:
        # The parser is imported where there are arguments: a plain start is to be quick.
        return Arguments(command=entries.open_workbench)
    from tui.cli.parser import parser

    if argv[0] == "serve":
        return _serve(argv[1:])
    found = vars(parser().parse_args(argv))
    arguments = Arguments(
        command=found["command"],
        given=_given(found),
        json=found.get("json", False),
        path_only=found.get("path_only", False),
        readonly=found["readonly"],
        names=found.get("names", []),
        groups=found.get("groups", []),
        everything=found.get("everything", False),
        devices=found.get("devices", []),
        settings=values.settings(found.get("settings", [])),
        pairs=found.get("pairs"),
        files=[values.file_at(name) for name in found.get("files", [])],
        demo=found["demo"] or "",
        bundle=found.get("bundle", ""),
        with_names=found.get("with_names", False),
    )
    arguments.python = str(arguments.given.get("python", arguments.python))
    if found.get("quick"):
        arguments.budget = "quick"
    if found.get("careful"):
        arguments.budget = "careful"
    if arguments.pairs is not None and arguments.pairs < 1:
        raise UsageError(f"--pairs {arguments.pairs}: at least 1")
    _take_snapshot(arguments, found)
    arguments.record = found.get("record") or ""
    arguments.loop = found.get("loop", False)
    arguments.shipped = found.get("shipped", False)
    if "speed" in found:
        arguments.speed = values.speed(found["speed"])
    if "flag" in found:
        arguments.flag, arguments.flag_values = values.flag_setting(found["flag"])
    return arguments


def _serve(argv: Sequence[str]) -> Arguments:
    """Read what follows ``serve``: its own options, and everything else for the workbench."""
    from tui.cli.parser import serve_parser

    found, served = serve_parser().parse_known_args(argv)
    if found.host not in ("127.0.0.1", "localhost"):
        raise UsageError(
            f"--host {found.host}: it listens on 127.0.0.1 alone; from elsewhere it is reached"
            " through the tunnel that it names when it starts"
        )
    inner = parse(served)
    if inner.command not in (entries.open_workbench, entries.replay):
        raise UsageError(f"serve {' '.join(served)}: it shows the workbench or a replay")
    if inner.record:
        raise UsageError("serve --record: each visit is a run of its own; record in a terminal")
    return Arguments(entries.serve, port=values.port(found.port), served=served)


def _given(found: dict[str, Any]) -> dict[str, Setting]:
    """What the command line says of what can be remembered; nothing that it does not say."""
    given: dict[str, Setting] = {}
    if "python" in found:
        given["python"] = values.python_at(found["python"])
    for name in ("theme", "refresh", "device"):
        text = found.get(f"start_{name}")
        if text is not None:
            given[name] = values.setting(name, text)
    if found["no_mouse"]:
        given["mouse"] = False
    if found["ascii"]:
        given["ascii"] = True
    return given


def _take_snapshot(arguments: Arguments, found: dict[str, Any]) -> None:
    arguments.snapshot = found.get("snapshot") or ""
    arguments.oom_text = found.get("oom_text") or ""
    arguments.markdown = found.get("markdown", False)
    arguments.redact = found.get("redact", False)
    arguments.at_peak = found.get("peak", False)
    arguments.at = found.get("at")
    arguments.top = found.get("top", arguments.top)
    if arguments.top < 1:
        raise UsageError(f"--top {arguments.top}: at least 1")
    if arguments.json and arguments.markdown:
        raise UsageError("--json and --markdown: one of them")
    if found.get("range"):
        arguments.event_range = values.event_range(found["range"])
    if found.get("min_size"):
        arguments.minimal_size = values.size_of(found["min_size"])
