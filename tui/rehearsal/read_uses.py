"""How a rehearsed program uses values that its host reads, found in the source of the line.

Values read as zeros, and ``isfinite`` as false, as kernels do not compute. A program that only
prints them runs as on a real GPU; a branch on them may differ.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from tui.watch.runs.agent_events import HostRead

FINITE = "isfinite"
PRINTS = frozenset(
    (
        *("print", "debug", "info", "warning", "log", "write", "add_scalar", "add_scalars"),
        *("set_description", "set_postfix", "set_postfix_str"),
    )
)
"""Functions and methods of Python, logging, TensorBoard, Lightning and tqdm that show a value."""
MOST_SOURCE_BYTES = 4 << 20
"""Largest source file that is parsed."""


class ReadUse(Enum):
    """How a program uses a value that it reads."""

    GUARD = "isfinite"
    """It is the result of ``isfinite``, directly or through a variable of the same function."""
    BRANCH = "branches"
    """A condition or a loop contains it, directly or through a variable of the same function."""
    PRINT = "prints"
    """It is printed or logged, and nothing else."""
    OTHER = "other"
    """Something else, or its source cannot be read."""


def reads_with(use: ReadUse, reads: Iterable[HostRead]) -> tuple[HostRead, ...]:
    """Return the reads whose values a program uses in one way."""
    return tuple(read for read in reads if find_use(read.filename, read.line) is use)


@functools.lru_cache(maxsize=1000)
def find_use(filename: str, line: int) -> ReadUse:
    """Find how a program uses the value that it reads at a line.

    Args:
        filename: the source file.
        line: its line, from 1.
    """
    tree = _parse(filename)
    if tree is None:
        return ReadUse.OTHER
    scope: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _covers_line(node, line):
            scope = node  # inner functions come after outer ones
    expressions = [node for node in _iterate_heads(scope) if _covers_line(node, line)]
    if _is_finite(scope, expressions, line):
        return ReadUse.GUARD
    assigned = {
        name.id
        for node in expressions
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in _iterate_names(target)
    }
    for test in _iterate_tests(scope):
        if _covers_line(test, line) or any(name.id in assigned for name in _iterate_names(test)):
            return ReadUse.BRANCH
    if expressions and all(_is_print(node) for node in expressions):
        return ReadUse.PRINT
    return ReadUse.OTHER


@functools.lru_cache(maxsize=100)
def _parse(filename: str) -> ast.AST | None:
    """Return a source file's tree; ``None`` if it is gone, too large, or no Python."""
    try:
        path = Path(filename)
        if path.stat().st_size > MOST_SOURCE_BYTES:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_finite(scope: ast.AST, expressions: Iterable[ast.AST], line: int) -> bool:
    """Return whether expressions of a line contain the result of ``isfinite``."""
    if any(_mentions_value(node) for node in expressions):
        return True
    used = {name.id for node in expressions for name in _iterate_names(node)}
    return any(
        isinstance(node, ast.Assign)
        and node.lineno <= line
        and _mentions_value(node.value)
        and any(name.id in used for target in node.targets for name in _iterate_names(target))
        for node in ast.walk(scope)
    )


def _iterate_heads(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield simple statements, and the heads of compound statements."""
    for node in ast.walk(scope):
        if isinstance(node, (ast.If, ast.While)):
            yield node.test
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node


def _iterate_tests(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the conditions and iterables that decide which statements run, and how often."""
    for node in ast.walk(scope):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            yield node.test
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield node.iter


def _is_print(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    called = node.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in PRINTS


def _covers_line(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
    return first <= line <= (last or first)


def _iterate_names(node: ast.AST) -> Iterator[ast.Name]:
    return (name for name in ast.walk(node) if isinstance(name, ast.Name))


def _mentions_value(node: ast.AST) -> bool:
    return any(
        (isinstance(name, ast.Attribute) and name.attr == FINITE)
        or (isinstance(name, ast.Name) and name.id == FINITE)
        for name in ast.walk(node)
    )
