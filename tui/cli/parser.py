"""The parser: which commands and options there are."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from tui.cli import entries
from tui.cli.arguments import Arguments, UsageError

SERVE = "show the workbench in a browser on this machine, through an SSH tunnel on yours"
DEMO = "the recording that comes with the program: scripted devices, a CPU's true figures"


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; the command's whole usage is a --help away."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}; see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """All of it, with a function for each command."""
    common = Parser(add_help=False)
    common.add_argument(
        "--python",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="run the workloads in this Python, which needs torch and nothing of ours",
    )
    own = Parser(add_help=False)
    own.add_argument(
        "--workloads",
        dest="files",
        action="append",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="add the workloads that this Python file declares; again for more",
    )
    screen = Parser(add_help=False)
    screen.add_argument("--theme", dest="start_theme", metavar="NAME", help="how it looks")
    screen.add_argument(
        "--refresh", dest="start_refresh", metavar="SECONDS", help="between two samples, 0.2 to 60"
    )
    screen.add_argument(
        "--device",
        dest="start_device",
        metavar="D",
        help="the device that is selected at first: cpu, cuda:0 or a GPU's UUID",
    )
    screen.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    screen.add_argument("--ascii", action="store_true", help="draw with plain ASCII characters")
    screen.add_argument(
        "--readonly", action="store_true", help="look only: run nothing, change nothing"
    )
    screen.add_argument(
        "--demo", metavar="GROUP", help="step through a group of workloads page by page"
    )
    as_json = Parser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print one JSON object")

    program = Parser(
        prog="gpu-workbench",
        description="A terminal workbench for PyTorch on GPU boxes: look, run, debug memory. "
        "Without a command it opens the workbench.",
        parents=[common, own, screen],
    )
    program.add_argument("--snapshot", metavar="FILE", help="open an allocator snapshot")
    program.add_argument(
        "--oom-text", metavar="FILE", help="with --snapshot: the text of the exception"
    )
    program.add_argument(
        "--record",
        metavar="FILE",
        help="write down what is seen and measured, to be played with replay; compressed where the "
        "name ends in .gz. It holds the names of this host, of users and of what they run",
    )
    program.add_argument(
        "--redact",
        action="store_true",
        help="with --record: without these names, home directories and arguments of programs",
    )
    program.set_defaults(command=entries.open_workbench)
    program.add_argument(
        "--version",
        dest="command",
        action="store_const",
        const=entries.show_version,
        help="print the version",
    )
    commands = program.add_subparsers(metavar="COMMAND")

    def add(name: str, command: Callable[[Arguments], int], text: str) -> argparse.ArgumentParser:
        child = commands.add_parser(
            name, help=text, description=text, parents=[common, own, as_json]
        )
        child.set_defaults(command=command)
        return child

    add("devices", entries.devices, "one look at the devices, then exit")
    add("list", entries.list_catalogue, "the catalogue of workloads and their parameters")
    config = add("config", entries.config, "the settings, and where each of them comes from")
    config.add_argument(
        "--path", dest="path_only", action="store_true", help="print only the file's place"
    )
    doctor = add("doctor", entries.doctor, "what works here, what does not, and what to do")
    doctor.add_argument(
        "--bundle",
        metavar="FILE",
        default="",
        help="write all that was found to a file, without names of users, hosts and folders",
    )
    doctor.add_argument("--with-names", action="store_true", help="leave those names in it")

    run = add("run", entries.run, "time workloads on the CPU and the GPUs")
    run.add_argument("names", nargs="*", metavar="NAME", help="workloads, see the list command")
    run.add_argument(
        "--group",
        dest="groups",
        action="append",
        default=[],
        metavar="G",
        help="all workloads of a group, see the list command; again for more",
    )
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

    compare = add("compare", entries.compare, "two settings of a backend flag: does it matter?")
    compare.add_argument("names", nargs=1, metavar="NAME", help="a workload")
    compare.add_argument(
        "--flag", required=True, metavar="F=A,B", help="such as cudnn.benchmark=off,on"
    )
    compare.add_argument(
        "--device",
        dest="devices",
        action="append",
        default=[],
        metavar="D",
        help="cpu, cuda:0, … (default: the first that the flag acts on)",
    )
    compare.add_argument("--pairs", type=int, metavar="N", help="how often each setting is timed")
    _add_settings(compare)
    _add_budget(compare)
    _add_snapshot(
        add("snapshot", entries.snapshot, "what an allocator snapshot tells: why it ran out")
    )
    text = "play a recording as if live, on any machine; make one with --record"
    replay = commands.add_parser("replay", help=text, description=text)
    replay.set_defaults(command=entries.replay)
    _add_replay(replay)
    # What follows it is read by a parser of its own.
    commands.add_parser("serve", help=SERVE, add_help=False).set_defaults(command=_serve_first)
    return program


def serve_parser() -> Parser:
    """What may follow ``serve`` and is not passed on to the workbench."""
    parser = Parser(
        prog="gpu-workbench serve",
        description=f"{SERVE[0].upper()}{SERVE[1:]}. Every other argument goes to the workbench: "
        "options such as --readonly, or replay FILE.",
    )
    parser.add_argument("--host", default="127.0.0.1", help=argparse.SUPPRESS)
    parser.add_argument("--port", default="8000", metavar="N", help="0 for any that is free")
    return parser


def _serve_first(_arguments: Arguments) -> int:
    raise UsageError("serve comes first: gpu-workbench serve [--port N] [options of the workbench]")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="FILE", help="a recording")
    parser.add_argument("--demo", dest="shipped", action="store_true", help=DEMO)
    parser.add_argument(
        "--speed",
        default="1",
        metavar="X",
        help="times the speed of life, or max: wait for nothing",
    )
    parser.add_argument("--loop", action="store_true", help="begin anew at the end")


def _add_snapshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="+", metavar="FILE", help="a snapshot, - for standard input; or: diff A B"
    )
    parser.add_argument("--markdown", action="store_true", help="print a report as Markdown")
    parser.add_argument(
        "--device",
        dest="devices",
        action="append",
        default=[],
        metavar="I",
        help="only the device of this index in the file",
    )
    parser.add_argument("--at", type=int, metavar="EVENT", help="the state right after an event")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="sites to list")
    parser.add_argument("--peak", action="store_true", help="diff: compare the peaks, not the ends")
    parser.add_argument(
        "--redact", action="store_true", help="take out user names and home directories"
    )
    parser.add_argument(
        "--oom-text", metavar="FILE", help="the exception's text, - for standard input"
    )
    parser.add_argument("--range", metavar="A..B", help="keep only these events of the trace")
    parser.add_argument("--min-size", metavar="SIZE", help="leave out what is smaller, as in 1MiB")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="K=V",
        help="a parameter, such as n=4096; run takes several values too: n=256..8192x2 (times 2), "
        "n=1..9+2 (plus 2), n=256,1024, dtype=*; again for more",
    )


def _add_budget(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true", help="about 3 s each, to 2%%")
    group.add_argument("--careful", action="store_true", help="up to 60 s each, to 0.25%%")
