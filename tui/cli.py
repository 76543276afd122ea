"""The command line: what can be asked for. Imports neither Textual nor torch nor NVML."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    screen = argparse.ArgumentParser(add_help=False)
    screen.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    screen.add_argument("--ascii", action="store_true", help="draw with plain ASCII characters")
    screen.add_argument(
        "--readonly", action="store_true", help="look only: run nothing, change nothing"
    )
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print one JSON object")

    parser = argparse.ArgumentParser(
        prog="gpu-workbench",
        description="A terminal workbench for PyTorch on GPU boxes: look, run, debug memory. "
        "Without a command it opens the workbench.",
        parents=[common, screen],
    )
    parser.set_defaults(command=_app)
    parser.add_argument(
        "--version", dest="command", action="store_const", const=_version, help="print the version"
    )
    commands = parser.add_subparsers(metavar="COMMAND")

    def add(name: str, command: Callable[[Arguments], int], text: str) -> ArgumentParser:
        child = commands.add_parser(name, help=text, description=text, parents=[common, as_json])
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
    return parser


def _add_settings(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="K=V",
        help="a parameter, such as n=4096; again for more",
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
    )
    if "python" in found:
        arguments.python = python_at(found["python"])
    if found.get("quick"):
        arguments.budget = "quick"
    if found.get("careful"):
        arguments.budget = "careful"
    if arguments.pairs is not None and arguments.pairs < 1:
        raise UsageError(f"--pairs {arguments.pairs}: at least 1")
    if "flag" in found:
        arguments.flag, arguments.flag_values = flag_setting(found["flag"])
    return arguments


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
