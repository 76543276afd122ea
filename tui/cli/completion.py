"""``gpu-workbench completion``: shell code that completes the program's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import shtab

from tui.cli.program import parser
from tui.core import state_folder
from tui.kit.command_line.options import Subcommand
from tui.kit.command_line.output import UsageError, not_known, print_text
from tui.kit.command_line.values import theme_names
from workloads.protocol.groups import FIRST_STEPS

if TYPE_CHECKING:
    from tui.kit.command_line.options import Parser

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """The shell to print code for."""

    names: Sequence[str] = ()


def add_options(parser: Parser) -> None:
    """Add the argument that names the shell."""
    parser.add_argument("names", nargs="*", metavar="SHELL", help=", ".join(SHELLS))


def values() -> Mapping[str, Sequence[str]]:
    """Return the values that an argument may have, by its placeholder in the help."""
    infos = state_folder.catalogue()
    return {
        "NAME": [info.name for info in infos],
        "STEP": [info.name for info in infos if info.group == FIRST_STEPS],
        "G": list(dict.fromkeys(info.group for info in infos)),
        "GROUP": list(dict.fromkeys(info.group for info in infos)),
        "THEME": theme_names(),
        "SHELL": SHELLS,
    }


def completion(options: CompletionOptions) -> int:
    """Print the shell's completion code; returns the exit code.

    Raises:
        UsageError: no shell is named, or an unsupported one.
    """
    if len(options.names) != 1:
        raise UsageError(f"completion: name your shell, {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    (shell,) = options.names
    if shell not in SHELLS:
        raise UsageError(f"completion: {not_known('shell', shell, SHELLS)}")
    # All commands, with the options of a command that takes them only where it stands first.
    program = parser(first="serve")
    known = values()
    for command in (program, *program.commands.values()):
        for action in command.arguments:
            word = action.metavar if isinstance(action.metavar, str) else ""
            if word in known:
                action.choices = known[word]
            elif word in ("FILE", "PATH"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # as its manual says
    print_text(shtab.complete(program, shell=shell))
    return 0


SUBCOMMAND = Subcommand(CompletionOptions, add_options, completion)
