"""Lines of the user's program, and what stands in them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from tui.snapshots.explain.frames import Frame

LONGEST_TERM = 40
"""Most characters of an expression that a remedy repeats."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of a source file."""

    filename: str
    line: int
    text: str


def find_line(lines: Iterable[SourceLine], where: Frame | None) -> str:
    """Return the text of a frame's line; empty if it is not known."""
    if where is None:
        return ""
    place = where.filename, where.line
    return next((each.text for each in lines if (each.filename, each.line) == place), "")


def find_added_term(text: str, name: str) -> str:
    """Return what a line adds to a sum, in the program's words.

    Args:
        text: one line, such as ``total = total + net(x).mean()``.
        name: the name of the sum.

    Returns:
        ``net(x).mean()``; empty if the line is no such sum, or if its term is long or no plain
        name, call, attribute or item, to which ``.item()`` can be appended.
    """
    term = _parse_term(text, name)
    if not isinstance(term, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return ""
    words = ast.get_source_segment(text.strip(), term) or ""
    return words if len(words) <= LONGEST_TERM else ""


def adds_to(text: str, name: str) -> bool:
    """Return whether a line adds to a sum: ``self.total = self.total + loss``.

    Args:
        text: one line.
        name: the name of the sum, of an attribute ``Trainer.total``.
    """
    return _parse_term(text, name) is not None


def _parse_term(text: str, name: str) -> ast.expr | None:
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _find_term(body[0], name) if len(body) == 1 else None


def _names(expression: ast.expr, name: str) -> bool:
    """Return whether an expression is the variable, or the attribute of some object."""
    if isinstance(expression, ast.Attribute) and "." in name:
        return expression.attr == name.rpartition(".")[2]
    return ast.unparse(expression) == name


def _find_term(statement: ast.stmt, name: str) -> ast.expr | None:
    if isinstance(statement, ast.AugAssign):
        is_sum = isinstance(statement.op, ast.Add) and _names(statement.target, name)
        return statement.value if is_sum else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    value = statement.value
    if not _names(statement.targets[0], name) or not isinstance(value, ast.BinOp):
        return None
    if not isinstance(value.op, ast.Add):
        return None
    if _names(value.left, name):
        return value.right
    return value.left if _names(value.right, name) else None
