"""Find the line that passes a variable to a backward pass: ``sum(losses).backward()``.

A graph that waits for its backward pass is no leak, however many passes it holds. The search
follows names through the statements of each function, in their order, from Python 3.8 on: a name
that is assigned from the variable leads to it, and so does what a running caller makes of a value
that the function returns. A single item, ``losses[-1].backward()``, says nothing of the others.
"""

from __future__ import annotations

import dis
import types
from typing import Any, Iterable, Iterator, NamedTuple

from .source_lines import MOST_CODES, CodePlace, mentions, names_of

_WITHOUT_GRAPH = frozenset(
    ("item", "detach", "detach_", "tolist", "numpy", "data", "float", "int", "len", "no_grad")
)
"""Functions and attributes whose value has no graph."""
_BACKWARD = frozenset(("backward", "manual_backward"))
"""Functions that start a backward pass: of a tensor, a module, a scaler or a trainer."""
_RETAINS = frozenset(("retain_graph", "create_graph"))
"""Keywords with which a backward pass keeps the graph that it would free."""
_ENDS = ("POP_TOP", "RETURN_", "YIELD", "RAISE")
"""Parts of the names of instructions that end a statement."""
_BETWEEN = ("ROT_", "SWAP", "UNPACK", "DUP", "COPY", "NOP", "CACHE", "EXTENDED_ARG")
"""Parts of the names of instructions between two targets of an assignment."""
_STORES_OF_COMPREHENSION = 2
"""Stores of an inlined comprehension's variable: each item, and what it was before."""
MOST_CALLERS = 8
"""Most functions through which to follow a returned value."""


class _Statement:
    """The names that one statement loads and stores."""

    def __init__(self) -> None:
        self.line = 0
        self.loads: set[str] = set()
        self.stores: set[str] = set()
        self.takes_item = False
        self.slices = False
        self.returns = False
        self.names_retains = False
        self.has_true = False

    def has_graph_of(self, names: set[str]) -> bool:
        """Return whether its value may have the graph of a variable with one of the names."""
        one_item = self.takes_item and not self.slices
        return (
            not one_item
            and not names.isdisjoint(self.loads)
            and self.loads.isdisjoint(_WITHOUT_GRAPH)
        )

    @property
    def retains(self) -> bool:
        """Whether a backward pass keeps its graph: ``backward(retain_graph=True)``."""
        return self.names_retains and self.has_true

    def starts_backward(self) -> bool:
        return not _BACKWARD.isdisjoint(self.loads) or {"autograd", "grad"} <= self.loads


class _Instruction:
    """One instruction: its line, its names, and whether it ends a statement."""

    def __init__(
        self, source: dis.Instruction, line: int, previous: str, keywords: tuple[Any, ...]
    ) -> None:
        name = self.name = source.opname
        self.line = line
        self.loads, self.stores = names_of(source)
        self.jumps = "JUMP" in name
        self.returns = "RETURN" in name
        # After END_FOR, POP_TOP pops the iterator.
        self.ends = any(part in name for part in _ENDS) and previous != "END_FOR"
        # Since 3.14, BINARY_OP takes an item.
        self.takes_item = "BINARY_SUBSCR" in name or (
            name == "BINARY_OP" and source.argrepr == "[]"
        )
        self.slices = "SLICE" in name
        self.retains = not _RETAINS.isdisjoint(keywords)
        self.is_true = source.argval is True
        self.between_stores = bool(self.stores) or any(part in name for part in _BETWEEN)


def _keywords_of(source: dis.Instruction, code: types.CodeType) -> tuple[Any, ...]:
    """Return the names of a call's keyword arguments, if an instruction loads them."""
    if source.opname == "KW_NAMES":  # of 3.11 and 3.12, whose dis does not resolve it
        names = code.co_consts[source.arg or 0]
    else:
        names = source.argval if source.opname == "LOAD_CONST" else ()
    return names if type(names) is tuple else ()


def _instructions(code: types.CodeType) -> Iterator[_Instruction]:
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line is not None}
    line, previous = code.co_firstlineno, ""
    inlined: dict[str, int] = {}
    for decoded in dis.get_instructions(code):
        line = starts.get(decoded.offset, line)
        instruction = _Instruction(decoded, line, previous, _keywords_of(decoded, code))
        previous = instruction.name
        # Since 3.12, a comprehension is part of its function: its variable ends no statement.
        if previous == "LOAD_FAST_AND_CLEAR":
            inlined[decoded.argval] = _STORES_OF_COMPREHENSION
        elif len(instruction.stores) == 1 and inlined.get(instruction.stores[0], 0):
            inlined[instruction.stores.pop()] -= 1
        yield instruction


def _statements(code: types.CodeType) -> Iterator[_Statement]:
    statement, jumped = _Statement(), False
    for instruction in _instructions(code):
        stored = statement.stores and not instruction.between_stores
        # A condition within one line may be part of an expression: f(1 if short else 2).
        if stored or (jumped and instruction.line != statement.line):
            yield statement
            statement = _Statement()
        jumped = instruction.jumps
        statement.line = instruction.line
        statement.loads.update(instruction.loads)
        statement.stores.update(instruction.stores)
        statement.takes_item = statement.takes_item or instruction.takes_item
        statement.slices = statement.slices or instruction.slices
        statement.names_retains = statement.names_retains or instruction.retains
        statement.has_true = statement.has_true or instruction.is_true
        if instruction.ends:
            statement.returns = instruction.returns
            yield statement
            statement = _Statement()
    yield statement


class BackwardLine(NamedTuple):
    """A line that passes a variable to a backward pass."""

    place: CodePlace
    retains: bool
    """True if that backward pass frees nothing."""


def _search(code: types.CodeType, name: str) -> tuple[BackwardLine | None, bool]:
    """Return the line that passes a name to a backward pass, and whether the name is returned.

    A line that frees the graph precedes one that retains it.
    """
    names, returned = {name}, False
    retaining: BackwardLine | None = None
    for statement in _statements(code):
        if statement.has_graph_of(names):
            if statement.starts_backward():
                found = BackwardLine((code, statement.line), statement.retains)
                if not found.retains:
                    return found, returned
                retaining = retaining or found
            names |= statement.stores
            returned = returned or statement.returns
        else:
            names -= statement.stores - {name}
    return retaining, returned


def find_backward(
    name: str, codes: Iterable[types.CodeType], callers: Iterable[types.CodeType]
) -> BackwardLine | None:
    """Return the line that passes a variable to a backward pass; ``None`` if none is found.

    Args:
        name: the name of the variable or the attribute.
        codes: the code of functions that may use it, the likeliest first.
        callers: the code of all running functions.
    """
    returned: list[str] = []
    retaining: BackwardLine | None = None
    for number, code in enumerate(codes):
        if number >= MOST_CODES:
            break
        found = _search_into(returned, code, name)
        if found is not None and not found.retains:
            return found
        retaining = retaining or found
    running = list(callers)
    followed: set[str] = set()
    while returned and len(followed) < MOST_CALLERS:
        function = returned.pop()
        if function in followed:
            continue
        followed.add(function)
        for code in running:
            found = _search_into(returned, code, function)
            if found is not None and not found.retains:
                return found
            retaining = retaining or found
    return retaining


def _search_into(returned: list[str], code: types.CodeType, name: str) -> BackwardLine | None:
    """Return the line that passes a name to a backward pass; note a function that returns it."""
    if not mentions(code, name):
        return None
    found, returns = _search(code, name)
    if returns:
        returned.append(code.co_name)
    return found
