"""Guards against NaN in a rehearsed program: ``isfinite`` reads false, as kernels do not compute.

The line at which the host reads the result is known; from its source follows whether that result
is one of ``isfinite``, directly or through a variable of the same function.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from tui.watch.runs.agent_events import HostRead

FINITE = "isfinite"
MOST_SOURCE_BYTES = 4 << 20
"""Largest source file that is parsed."""


def finite_reads(reads: Iterable[HostRead]) -> tuple[HostRead, ...]:
    """Return the reads whose value comes from ``isfinite``, as far as their source can be read."""
    return tuple(each for each in reads if reads_finite(each.filename, each.line))


@functools.lru_cache(maxsize=1000)
def reads_finite(filename: str, line: int) -> bool:
    """Return whether a line uses the result of ``isfinite``.

    Args:
        filename: the source file.
        line: its line, from 1.
    """
    try:
        path = Path(filename)
        if path.stat().st_size > MOST_SOURCE_BYTES:
            return False
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # it is gone, or no Python
    scope: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _covers(node, line):
            scope = node  # inner functions come after those around them
    expressions = [node for node in _heads(scope) if _covers(node, line)]
    if any(_mentions(node) for node in expressions):
        return True
    used = {name.id for node in expressions for name in _names(node)}
    return any(
        isinstance(node, ast.Assign)
        and node.lineno <= line
        and _mentions(node.value)
        and any(name.id in used for target in node.targets for name in _names(target))
        for node in ast.walk(scope)
    )


def _heads(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the simple statements, and of the others what stands before their colon."""
    for node in ast.walk(scope):
        if isinstance(node, (ast.If, ast.While)):
            yield node.test
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node


def _covers(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
    return first <= line <= (last or first)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))


def _mentions(node: ast.AST) -> bool:
    return any(
        (isinstance(each, ast.Attribute) and each.attr == FINITE)
        or (isinstance(each, ast.Name) and each.id == FINITE)
        for each in ast.walk(node)
    )
