"""Find variables whose value is left from the previous iteration of a loop.

``logits = model(x)`` in a loop keeps the logits of one iteration until the next has computed its
own: for that long, both are in memory. The bytecode shows it if a function has one assignment to a
name, is running at a point of the loop before it, and reads the name only after it.
"""

from __future__ import annotations

import dis
import types
from typing import Iterable

from .code_files import is_of_user
from .reach import VariablePlace
from .source_lines import mentions, names_of, nested_codes

_JUMPS = frozenset(dis.hasjrel + dis.hasjabs)
_VARARGS, _VARKEYWORDS = 0x4, 0x8
"""``inspect.CO_VARARGS`` and ``CO_VARKEYWORDS``."""


class RunningFunctions:
    """The instructions at which the program's functions are running."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], tuple[types.CodeType, int] | None] = {}

    def add(self, frames: Iterable[types.FrameType]) -> None:
        """Add a thread's frames, each identified by its file, line and function."""
        for frame in frames:
            code = frame.f_code
            if not is_of_user(code.co_filename):
                continue
            is_module = code.co_name == "<module>"
            if is_module and dict.get(frame.f_globals, "__file__") != code.co_filename:
                continue  # typed code: an earlier command may have assigned the name
            key = code.co_filename, frame.f_lineno or 0, code.co_name
            # Of two frames at the same line, as of two threads, neither can be told from the other.
            self._known[key] = None if key in self._known else (code, frame.f_lasti)

    def find_left_over(self, place: VariablePlace) -> str:
        """Return the variable that leads to a place if its value is left over, else no text."""
        name = place.name.partition(".")[0].partition("[")[0]
        known = None if place.frame is None else self._known.get(place.frame)
        return name if known is not None and is_left_over(name, *known) else ""


def is_left_over(name: str, code: types.CodeType, at: int) -> bool:
    """Return whether a variable must have its value from the previous iteration of a loop.

    Args:
        name: the variable, which has a value.
        code: the code of its function, or of its module.
        at: offset of the running instruction.
    """
    arguments = code.co_argcount + code.co_kwonlyargcount
    arguments += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    if name in code.co_varnames[:arguments] or name in code.co_cellvars + code.co_freevars:
        return False
    others = (nested for nested in nested_codes(code) if nested is not code)
    if name not in code.co_varnames and any(mentions(other, name) for other in others):
        return False  # a global that a function may read
    reads: list[int] = []
    stores: list[int] = []
    loops: list[tuple[int, int]] = []
    for instruction in dis.get_instructions(code):
        here = instruction.offset
        if instruction.opname.startswith("DELETE_") and instruction.argval == name:
            return False
        if instruction.opcode in _JUMPS and instruction.argval < here:
            loops.append((instruction.argval, here))
        loads, stored = names_of(instruction)
        reads += [here] * loads.count(name)
        stores += [here] * stored.count(name)
    if len(stores) != 1 or any(read < stores[0] for read in reads):
        return False
    return any(first <= at < stores[0] <= last for first, last in loops)
