"""Find the line of a program that adds to a variable: ``losses.append(loss)``, ``total += loss``.

It reads the bytecode of the functions that can access the variable, from Python 3.8 on.
"""

from __future__ import annotations

import dis
import types
from collections import defaultdict
from typing import Iterable, Iterator

_ADDING = frozenset(
    (
        "append",
        "appendleft",
        "add",
        "extend",
        "insert",
        "push",
        "put",
        "put_nowait",
        "register_buffer",
        "setattr",
        "setdefault",
        "update",
    )
)
"""Methods that enlarge collections."""
MOST_CODES = 2000
"""Most functions to read for one variable."""


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions defined in it."""
    waiting = [code]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(item for item in each.co_consts if type(item) is types.CodeType)


class _LineNames:
    """The uses of names in one line."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()
        self.texts: set[str] = set()
        self.calls_adding = False
        self.stores_item = False


def _lines_of(code: types.CodeType) -> dict[int, _LineNames]:
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line is not None}
    lines: dict[int, _LineNames] = defaultdict(_LineNames)
    current = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        current = starts.get(instruction.offset, current)
        line, name, argument = lines[current], instruction.opname, instruction.argval
        if name == "STORE_SUBSCR":
            line.stores_item = True
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            line.loads.add(argument)
            line.calls_adding = line.calls_adding or argument in _ADDING
        elif name == "LOAD_CONST":
            if type(argument) is str:
                line.texts.add(argument)
        elif name.startswith("LOAD_") and "CONST" not in name:
            # Python 3.13 introduced instructions with two names.
            line.loads.update(argument if type(argument) is tuple else [argument])
            line.calls_adding = line.calls_adding or argument in _ADDING
        elif name.startswith("STORE_"):
            if type(argument) is tuple:
                first, second = argument
                line.stores.add(first)
                (line.stores if name.count("STORE") > 1 else line.loads).add(second)
            else:
                line.stores.add(argument)
    return lines


def find_adding_line(
    name: str, codes: Iterable[types.CodeType], *, collection: bool, key: str = ""
) -> tuple[types.CodeType, int] | None:
    """Find the line that adds to a variable or an attribute.

    Args:
        name: the name of the variable or the attribute.
        codes: the code of functions that may add to it, the likeliest first.
        collection: the variable is a collection, to which items are added; otherwise a tensor,
            which is assigned.
        key: the key of the item that is the collection: lines with this name take precedence.

    Returns:
        The function's code and the line; for tensors, and for collections that no line adds to,
        the last line that assigns the name, preferring one that also reads it.
    """
    assigned: tuple[types.CodeType, int] | None = None
    combined: tuple[types.CodeType, int] | None = None
    adding: tuple[types.CodeType, int] | None = None
    for number, code in enumerate(codes):
        if number >= MOST_CODES:
            break
        if not _mentions(code, name):
            continue
        for at, line in _lines_of(code).items():
            if collection and name in line.loads and (line.calls_adding or line.stores_item):
                if not key or key in line.texts:
                    return code, at
                adding = adding or (code, at)
            if name in line.stores:
                assigned = code, at
                if name in line.loads:
                    combined = code, at
    return adding or combined or assigned


def _mentions(code: types.CodeType, name: str) -> bool:
    return (
        name in code.co_names
        or name in code.co_varnames
        or name in code.co_cellvars
        or name in code.co_freevars
    )
