"""Which command adds a session to a comparison that has too few. Pure."""

from __future__ import annotations

import json
import shlex

from tui.results.store.compare import UNKNOWN, DifferingFact, Question
from tui.results.store.records import FLAG, VARIABLE

_OF_A_PYTHON = frozenset({"torch", "python", "cuda", "cudnn"})
"""Facts that another Python has otherwise, on the same box at the same time."""
_FOLLOWS = frozenset({"SM clock", "clocks limited by", "threads", "interop threads", "malloc"})
"""What differs as a consequence of others, and is nothing that a command sets."""


def run_command(question: Question) -> str:
    """Return the command that measures a workload with its parameters once more."""
    device = question.devices[1]
    words = ["gpu-workbench", "run", question.workload]
    for name, value in json.loads(question.parameters).items():
        words += ["--set", f"{name}={_typed(value)}"]
    return shlex.join([*words, "--device", device])


def interleave_command(question: Question) -> str | None:
    """Return the command that alternates both sides, if one box can run both.

    Returns:
        ``None`` where the sides differ in what no option sets, such as the driver or the box.
    """
    words = [_settings(one) for one in question.differences if one.name not in _FOLLOWS]
    if not words or None in words or question.devices[0] != question.devices[1]:
        return None
    sides = [dict.fromkeys(pair[side] for pair in words if pair) for side in (0, 1)]
    a, b = (",".join(side) for side in sides)
    return f"{run_command(question)} --interleave {_quoted(a)} {_quoted(b)}"


def _settings(one: DifferingFact) -> tuple[str, str] | None:
    """Return the settings that give a fact its value in A and in B."""
    if one.name in _OF_A_PYTHON:
        return "python=PATH_OF_A", "python=PATH_OF_B"
    for prefix in (FLAG, VARIABLE):
        if one.name.startswith(prefix) and len(one.a) == len(one.b) == 1:
            if UNKNOWN in (*one.a, *one.b):
                return None
            name = one.name.removeprefix(prefix)
            return f"{name}={one.a[0]}", f"{name}={one.b[0]}"
    return None


def _typed(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    return shlex.quote(text)
