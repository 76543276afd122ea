"""``run --interleave A B``: two settings that alternate; each turn is its own session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.kit.command_line.output import UsageError, not_known
from tui.kit.command_line.values import python_at
from tui.runs.state.events import FlagSet
from workloads.protocol.flag_words import parse_setting

if TYPE_CHECKING:
    from tui.runs.session.session import Session

FORMS = "python=PATH, a flag such as cudnn.benchmark=on, or a VARIABLE=value; several with commas"
TURNS = 4
"""Default turns of each side; so many sessions detect a shift of 5%."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_FLAG = re.compile(r"[a-z]\w*(\.\w+)+")


@dataclass(frozen=True, slots=True)
class InterleavedSide:
    """The settings of one of the two sides."""

    text: str
    """The settings as typed."""
    python: str = ""
    """Path of a Python; empty for the Python of all runs."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def apply_flags(self, session: Session) -> None:
        """Set the flags for all runs queued later.

        Args:
            session: a session whose runner is ready.

        Raises:
            UsageError: torch does not have the flag here.
        """
        environment = session.state.machine.environment
        known = [flag.name for flag in environment.flags] if environment else []
        for name, value in self.flags.items():
            if name not in known:
                raise UsageError(f"--interleave {self.text}: {not_known('flag', name, known)}")
            session.state.publish(FlagSet(name, value))


def parse_arm(text: str) -> InterleavedSide:
    """Parse one side of ``--interleave``.

    Args:
        text: ``NAME=VALUE`` pairs, separated by commas.

    Raises:
        UsageError: a part has an unknown form, or names no program.
    """
    python, flags, variables = "", {}, {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"--interleave {text}: give {FORMS}")
        if name == "python":
            python = python_at(value, "--interleave python")
        elif _FLAG.fullmatch(name) and (setting := parse_setting(name, value)) is not None:
            flags[name] = setting
        elif _VARIABLE.fullmatch(name) and "\0" not in value:
            variables[name] = value
        else:
            raise UsageError(f"--interleave {text}: {part.strip()}: give {FORMS}")
    return InterleavedSide(text, python, flags, variables)


def parse_arms(texts: Sequence[str]) -> tuple[InterleavedSide, InterleavedSide]:
    """Parse both sides.

    Raises:
        UsageError: as for :func:`parse_arm`, or both sides are the same.
    """
    a, b = map(parse_arm, texts)
    if (a.python, a.flags, a.variables) == (b.python, b.flags, b.variables):
        raise UsageError(f"--interleave {a.text} {b.text}: both sides are the same")
    return a, b
