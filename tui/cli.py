"""The command line: what can be asked for. Imports neither Textual nor torch nor NVML."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.arguments import Arguments, UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _app(arguments: Arguments) -> int:
    from tui.start import run_app

    return run_app(arguments)


def _devices(arguments: Arguments) -> int:
    from tui.headless.devices import devices

    return devices(arguments)


def _list(arguments: Arguments) -> int:
    from tui.headless.listing import listing

    return listing(arguments)


def _run(arguments: Arguments) -> int:
    from tui.headless.run import run

    return run(arguments)


def _compare(arguments: Arguments) -> int:
    from tui.headless.compare import compare

    return compare(arguments)


def _snapshot(arguments: Arguments) -> int:
    from tui.headless.snapshot import snapshot

    return snapshot(arguments)


def _doctor(arguments: Arguments) -> int:
    from tui.headless.doctor import doctor

    return doctor(arguments)


def _version(_arguments: Arguments) -> int:
    from importlib.metadata import version

    sys.stdout.write(f"gpu-workbench {version('gpu-workbench')}\n")
    return 0


def _parser() -> ArgumentParser:
    # Imported where there are arguments: a plain start is measured against an empty app.
    import argparse

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--python",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="run the workloads in this Python, which needs torch and nothing of ours",
    )
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument(
        "--workloads",
        dest="files",
        action="append",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="add the workloads that this Python file declares; again for more",
    )
    screen = argparse.ArgumentParser(add_help=False)
    screen.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    screen.add_argument("--ascii", action="store_true", help="draw with plain ASCII characters")
    screen.add_argument(
        "--readonly", action="store_true", help="look only: run nothing, change nothing"
    )
    screen.add_argument(
        "--demo", metavar="GROUP", help="step through a group of workloads page by page"
    )
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print one JSON object")

    parser = argparse.ArgumentParser(
        prog="gpu-workbench",
        description="A terminal workbench for PyTorch on GPU boxes: look, run, debug memory. "
        "Without a command it opens the workbench.",
        parents=[common, own, screen],
    )
    parser.add_argument("--snapshot", metavar="FILE", help="open an allocator snapshot")
    parser.add_argument(
        "--oom-text", metavar="FILE", help="with --snapshot: the text of the exception"
    )
    parser.set_defaults(command=_app)
    parser.add_argument(
        "--version", dest="command", action="store_const", const=_version, help="print the version"
    )
    commands = parser.add_subparsers(metavar="COMMAND")

    def add(name: str, command: Callable[[Arguments], int], text: str) -> ArgumentParser:
        child = commands.add_parser(
            name, help=text, description=text, parents=[common, own, as_json]
        )
        child.set_defaults(command=command)
        return child

    add("devices", _devices, "one look at the devices, then exit")
    add("list", _list, "the catalogue of workloads and their parameters")
    add("doctor", _doctor, "what works here, what does not, and what to do about it")

    run = add("run", _run, "time workloads on the CPU and the GPUs")
    run.add_argument("names", nargs="*", metavar="NAME", help="workloads, see the list command")
    run.add_argument("--group", dest="groups", action="append", default=[], metavar="G")
    run.add_argument("--all", dest="everything", action="store_true", help="every workload")
    run.add_argument(
        "--device",
        dest="devices",
        action="append",
        default=[],
        metavar="D",
        help="cpu, cuda:0, …, mps; again for more (default: the CPU and the first GPU)",
    )
    _add_settings(run)
    _add_budget(run)

    compare = add("compare", _compare, "two settings of a backend flag: does it matter?")
    compare.add_argument("names", nargs=1, metavar="NAME", help="a workload")
    compare.add_argument(
        "--flag", required=True, metavar="F=A,B", help="such as cudnn.benchmark=off,on"
    )
    compare.add_argument("--device", dest="devices", action="append", default=[], metavar="D")
    compare.add_argument("--pairs", type=int, metavar="N", help="how often each setting is timed")
    _add_settings(compare)
    _add_budget(compare)
    _add_snapshot(add("snapshot", _snapshot, "what an allocator snapshot tells: why it ran out"))
    return parser


def _add_snapshot(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="+", metavar="FILE", help="a snapshot, - for standard input; or: diff A B"
    )
    parser.add_argument("--markdown", action="store_true", help="print a report as Markdown")
    parser.add_argument("--device", dest="devices", action="append", default=[], metavar="I")
    parser.add_argument("--at", type=int, metavar="EVENT", help="the state right after an event")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="sites to list")
    parser.add_argument("--peak", action="store_true", help="diff: compare the peaks, not the ends")
    parser.add_argument(
        "--redact", action="store_true", help="take out user names and home directories"
    )
    parser.add_argument(
        "--oom-text", metavar="FILE", help="the exception's text, - for standard input"
    )
    parser.add_argument("--range", metavar="A..B", help="keep only these entries of the trace")
    parser.add_argument("--min-size", metavar="SIZE", help="leave out what is smaller, as in 1MiB")


def _add_settings(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="K=V",
        help="a parameter, such as n=4096; run takes several values too: n=256..8192x2 (times 2), "
        "n=1..9+2 (plus 2), n=256,1024, dtype=*; again for more",
    )


def _add_budget(parser: ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true", help="about 3 s each, to 2%%")
    group.add_argument("--careful", action="store_true", help="up to 60 s each, to 0.25%%")


def parse(argv: Sequence[str]) -> Arguments:
    """Read the arguments.

    Raises:
        UsageError: a value that cannot be carried out.
        SystemExit: argparse's own end, for ``--help`` and words that it does not know.
    """
    if not argv:
        return Arguments(command=_app)
    found = vars(_parser().parse_args(argv))
    if found.get("ascii"):
        # Read where the glyphs are chosen, before anything is drawn.
        os.environ["GPU_WORKBENCH_ASCII"] = "1"
    arguments = Arguments(
        command=found["command"],
        json=found.get("json", False),
        mouse=not found["no_mouse"],
        readonly=found["readonly"],
        names=found.get("names", []),
        groups=found.get("groups", []),
        everything=found.get("everything", False),
        devices=found.get("devices", []),
        settings=_pairs(found.get("settings", [])),
        pairs=found.get("pairs"),
        files=[file_at(name) for name in found.get("files", [])],
        demo=found["demo"] or "",
    )
    if "python" in found:
        arguments.python = python_at(found["python"])
    if found.get("quick"):
        arguments.budget = "quick"
    if found.get("careful"):
        arguments.budget = "careful"
    if arguments.pairs is not None and arguments.pairs < 1:
        raise UsageError(f"--pairs {arguments.pairs}: at least 1")
    _take_snapshot(arguments, found)
    if "flag" in found:
        arguments.flag, arguments.flag_values = flag_setting(found["flag"])
    return arguments


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
        arguments.event_range = event_range(found["range"])
    if found.get("min_size"):
        arguments.minimal_size = size_of(found["min_size"])


def event_range(text: str) -> tuple[int, int | None]:
    """``1000..2000`` as the first and the last number; either may be left out.

    Raises:
        UsageError: it is not of that form.
    """
    first, dots, last = text.partition("..")
    ends = [end.strip() for end in (first, last)]
    if not dots or any(end and not end.isdecimal() for end in ends):
        raise UsageError(f"--range {text}: give two numbers, such as 1000..2000 or 1000..")
    low, high = int(ends[0] or 0), int(ends[1]) if ends[1] else None
    if high is not None and high < low:
        raise UsageError(f"--range {text}: the first number is the larger one")
    return low, high


def size_of(text: str) -> int:
    """``4096``, ``512K`` or ``1.5 MiB`` in bytes.

    Raises:
        UsageError: it is no size.
    """
    import re

    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])i?)?B?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"--min-size {text}: give bytes, such as 4096 or 1MiB")
    return int(float(found[1]) * 1024 ** " KMGT".index((found[2] or " ").upper()))


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {text}: give a name and a value, such as n=4096")
        settings[name.strip()] = value.strip()
    return settings


def flag_setting(text: str) -> tuple[str, tuple[bool, bool]]:
    """``cudnn.benchmark=off,on`` as a name and two values.

    Raises:
        UsageError: it is not of that form.
    """
    name, _, values = text.partition("=")
    words = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
    parts = [part.strip().lower() for part in values.split(",")]
    if not name or len(parts) != 2 or any(part not in words for part in parts):
        raise UsageError(f"--flag {text}: give a name and two settings, such as {name}=off,on")
    return name.strip(), (words[parts[0]], words[parts[1]])


def file_at(text: str) -> str:
    """The absolute path of a file of workloads.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(f"--workloads {text}: no such file")
    return str(path.absolute())


def python_at(text: str) -> str:
    """The Python that ``--python`` names: a program, a command, or the folder of an environment.

    Raises:
        UsageError: there is no program there.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    if path.is_file() and os.access(path, os.X_OK):
        # Not resolved: a virtual environment's Python is a link, and its place says which one.
        return str(path.absolute())
    found = shutil.which(text)
    if found is None or os.sep in text:
        raise UsageError(f"--python {text}: no program there; give the path of a Python with torch")
    return found
