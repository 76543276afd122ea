"""``gpu-workbench code``: a workload's script, which users can run and change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.headless.catalogue import CatalogueOptions, read_catalogue, unknown_workload
from tui.kit.command_line.options import Parser, Subcommand, add_common
from tui.kit.command_line.output import Failure, UsageError, print_json, print_text
from tui.kit.command_line.progress import run_to_exit
from workloads.protocol.messages import Hello


@dataclass(frozen=True, slots=True)
class CodeOptions(CatalogueOptions):
    """The workload whose script is printed."""

    names: Sequence[str] = ()


def add_options(parser: Parser) -> None:
    """Add the argument that names the workload."""
    add_common(parser)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="workload; gpu-workbench list shows them"
    )


def print_code(options: CodeOptions) -> int:
    """Print the script of a workload; return the exit code.

    Raises:
        UsageError: not exactly one workload is named, or an unknown one.
        Failure: the workload has no script, or the catalogue cannot be read.
    """
    if len(options.names) != 1:
        raise UsageError("code: name one workload, such as gpu-workbench code matmul > matmul.py")
    python = options.python

    async def work() -> int:
        hello = await read_catalogue(python, options.files)
        script = find_script(hello, options.names[0])
        if options.json:
            print_json({"workload": options.names[0], "script": script})
        else:
            print_text(script)
        return 0

    return run_to_exit(work())


def find_script(hello: Hello, name: str) -> str:
    """Return the script of a workload.

    Raises:
        UsageError: the catalogue has no such workload.
        Failure: likewise, but an unreadable file may declare it; or it has no script.
    """
    info = next((workload for workload in hello.workloads if workload.name == name), None)
    if info is None:
        raise unknown_workload(hello, name, hello.workloads)
    if not info.script:
        raise Failure(f"{name} has no script: your own file declares it; copy its code from there")
    return info.script


SUBCOMMAND = Subcommand(CodeOptions, add_options, print_code)
