"""Find what a program's code does with a variable: ``losses.append(loss)``, ``losses.clear()``.

It reads the bytecode of the functions that can access the variable, from Python 3.8 on.
"""

from __future__ import annotations

import dis
import types
from collections import defaultdict
from typing import FrozenSet, Iterable, Iterator, NamedTuple, Tuple

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
_REMOVING = frozenset(("clear", "pop", "popitem", "popleft", "remove"))
"""Methods that make collections smaller."""
_COLLECTIONS = frozenset(("list", "dict", "set", "deque", "defaultdict", "OrderedDict"))
"""Classes that make an empty collection."""
_JOINING = frozenset(
    (
        *("cat", "concat", "concatenate", "pad"),
        *("column_stack", "dstack", "hstack", "row_stack", "vstack"),
    )
)
"""Functions whose result is a longer tensor than the one they are given."""
MOST_CODES = 2000
"""Most functions to read for one variable."""

CodePlace = Tuple[types.CodeType, int]
"""A function's code and one of its lines."""


class AddingLine(NamedTuple):
    """A line that adds items to a collection."""

    place: CodePlace
    names: FrozenSet[str]  # noqa: UP006 (read at run time, on Python 3.8 too)
    """The other names that it uses, that of the item among them."""


class VariableUses(NamedTuple):
    """What the program's code does with one variable."""

    adds: CodePlace | None
    """The line that adds to it; else the last one that assigns it, preferring one that reads it."""
    enlarges: bool
    """True if that line adds items to a collection, or joins a tensor to a longer one."""
    empties: CodePlace | None
    """A line that removes items of the collection, or replaces it again and again."""
    accumulates: bool
    """True if a loop computes a tensor from what it was: ``total = total + loss``."""
    adding: Tuple[AddingLine, ...] = ()  # noqa: UP006 (read at run time, on Python 3.8 too)
    """All lines that add items to it."""


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and the code objects of functions defined in it."""
    waiting = [code]
    while waiting:
        nested = waiting.pop()
        yield nested
        waiting.extend(item for item in nested.co_consts if type(item) is types.CodeType)


class _LineNames:
    """The uses of names in one line."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()
        self.joined: set[str] = set()
        """Stored names whose value a joining function has made, also in an earlier line."""
        self.renewed: set[str] = set()
        """Stored names whose value is a new collection, or a part of one."""
        self.extended: set[str] = set()
        """Stored names whose value is a sum of collections, and no part of one."""
        self.in_loop = False
        self.texts: set[str] = set()
        self.calls_adding = False
        self.calls_removing = False
        self.stores_item = False
        self.deletes_item = False

    def is_joined(self, name: str, loaded: bool) -> bool:
        """Return whether a name is stored joined to what it was; ``loaded`` in an earlier line."""
        return name in self.joined and (loaded or name in self.loads)

    def load(self, names: Iterable[str]) -> None:
        self.loads.update(names)
        self.calls_adding = self.calls_adding or not _ADDING.isdisjoint(names)
        self.calls_removing = self.calls_removing or not _REMOVING.isdisjoint(names)


_JUMPS = frozenset(dis.hasjrel + dis.hasjabs)
_MAKES = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET")
_JOINS_ITEMS = ("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "_UNPACK")
"""Parts of the names of instructions that join a collection to another one: ``[*losses, loss]``."""
_SUMS = frozenset(("+", "+=", "|", "|="))
_COMPUTES = ("BINARY", "CALL", "COMPARE", "INPLACE", "LOAD_GLOBAL", "POP_TOP", *_MAKES)
"""Parts of the names of instructions that do not occur between two targets of an assignment."""


def _lines_of(code: types.CodeType) -> dict[int, _LineNames]:
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line is not None}
    instructions = list(dis.get_instructions(code))
    loops = [
        (jump.argval, jump.offset)
        for jump in instructions
        if jump.opcode in _JUMPS and jump.argval < jump.offset
    ]
    lines: dict[int, _LineNames] = defaultdict(_LineNames)
    current = code.co_firstlineno
    joins = makes = sums = slices = stored = False
    previous = ""
    for instruction in instructions:
        current = starts.get(instruction.offset, current)
        line, name = lines[current], instruction.opname
        line.in_loop = line.in_loop or any(
            first <= instruction.offset <= last for first, last in loops
        )
        if name == "LOAD_CONST" and type(instruction.argval) is str:
            line.texts.add(instruction.argval)
        line.stores_item = line.stores_item or name == "STORE_SUBSCR"
        line.deletes_item = line.deletes_item or name == "DELETE_SUBSCR"
        loads, stores = names_of(instruction)
        line.load(loads)
        # After END_FOR, POP_TOP pops the iterator.
        ends = name == "POP_TOP" and previous != "END_FOR"
        previous = name
        if ends or (stored and any(part in name for part in _COMPUTES)):
            joins = makes = sums = slices = stored = False  # another statement
        if not _JOINING.isdisjoint(loads):
            joins, stored = True, False
        if name in _MAKES or "SLICE" in name or not _COLLECTIONS.isdisjoint(loads):
            makes, stored = True, False
        sums = sums or _is_sum(instruction)
        slices = slices or "SLICE" in name
        if stores:
            stored = True
            line.stores.update(stores)
            line.joined.update(stores if joins else ())
            line.renewed.update(stores if makes else ())
            line.extended.update(stores if sums and not slices else ())
    return lines


def _is_sum(instruction: dis.Instruction) -> bool:
    """Return whether an instruction adds two values, or one collection to another."""
    name = instruction.opname
    if name == "BINARY_OP":
        return instruction.argrepr in _SUMS
    return name in ("BINARY_ADD", "INPLACE_ADD", "BINARY_OR", "INPLACE_OR") or any(
        part in name for part in _JOINS_ITEMS
    )


def names_of(instruction: dis.Instruction) -> tuple[list[str], list[str]]:
    """Return the names that an instruction loads and those that it stores."""
    name, argument = instruction.opname, instruction.argval
    if "CONST" in name or not name.startswith(("LOAD_", "STORE_")):
        return [], []
    if type(argument) is tuple:  # Python 3.13 introduced instructions with two names
        first, second = argument
        if name.startswith("LOAD_"):
            return [first, second], []
        return ([], [first, second]) if name.count("STORE") > 1 else ([second], [first])
    if type(argument) is not str:
        return [], []
    return ([argument], []) if name.startswith("LOAD_") else ([], [argument])


def find_uses(
    name: str, codes: Iterable[types.CodeType], *, collection: bool, key: str = ""
) -> VariableUses:
    """Find what code does with a variable or an attribute.

    Args:
        name: the name of the variable or the attribute.
        codes: the code of functions that may use it, the likeliest first.
        collection: the variable is a collection, to which items are added; otherwise a tensor,
            which is assigned.
        key: the key of the item that is the collection: lines with this name take precedence.
    """
    uses = _Uses(name, key)
    for number, code in enumerate(codes):
        if number >= MOST_CODES:
            break
        if mentions(code, name):
            uses.read(code)
    first = uses.adding[0].place if uses.adding else None
    adds = first if collection else uses.joined
    return VariableUses(
        adds or uses.combined or uses.assigned,
        adds is not None,
        uses.empties if collection else None,
        not collection and adds is None and uses.accumulates,
        tuple(uses.adding) if collection else (),
    )


class _Uses:
    """The uses of one variable in the code read so far."""

    def __init__(self, name: str, key: str) -> None:
        self._name = name
        self._key = key
        self._keyed = False
        self._renewing: list[CodePlace] = []
        self.adding: list[AddingLine] = []
        self.joined: CodePlace | None = None
        self.combined: CodePlace | None = None
        self.assigned: CodePlace | None = None
        self.accumulates = False
        """True if :attr:`combined` is in a loop."""
        self._removing: CodePlace | None = None

    @property
    def empties(self) -> CodePlace | None:
        """Return the line that removes items or, after the first time, creates the collection."""
        again = self._renewing if len({id(code) for code, _ in self._renewing}) > 1 else []
        later = (place for place in again if place[0].co_name != "__init__")
        return self._removing or next(later, None)

    def read(self, code: types.CodeType) -> None:
        loaded = False  # in an earlier line of this function
        for at, line in _lines_of(code).items():
            place = code, at
            loads = self._name in line.loads
            if loads:
                self._read_load(line, place)
            if self._name in line.stores:
                self.assigned = place
                if loads:
                    self.combined, self.accumulates = place, line.in_loop
                self.joined = place if line.is_joined(self._name, loaded) else self.joined
                if loads and self._name in line.extended:
                    self._add(line, place)
                elif self._name in line.renewed:
                    self._renewing.append(place)
                    if line.in_loop:
                        self._removing = self._removing or place
            loaded = loaded or loads

    def _read_load(self, line: _LineNames, place: CodePlace) -> None:
        if line.calls_adding or line.stores_item:
            has_key = self._key in line.texts
            if has_key and not self._keyed:
                self._keyed = True
                self.adding.clear()
            if has_key or not self._keyed:
                self._add(line, place)
        if line.calls_removing or line.deletes_item:
            self._removing = self._removing or place

    def _add(self, line: _LineNames, place: CodePlace) -> None:
        self.adding.append(AddingLine(place, frozenset(line.loads - {self._name})))


def mentions(code: types.CodeType, name: str) -> bool:
    """Return whether a function uses a name."""
    return (
        name in code.co_names
        or name in code.co_varnames
        or name in code.co_cellvars
        or name in code.co_freevars
    )
