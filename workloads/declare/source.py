"""The source of workloads: their scripts, and the lines that are timed."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import textwrap
from collections.abc import Callable

SCRIPTS = "workloads.scripts"
CATALOGUE = "workloads.catalog"


def read_script(name: str, prepare: Callable[..., object]) -> str:
    """Return the script of a workload of the catalogue, without importing it.

    Args:
        name: the workload's name, and the script's.
        prepare: the function that prepares the workload.

    Returns:
        The text of the script; empty for a workload of a user's file, which has none.

    Raises:
        OSError: the script cannot be read.
    """
    if not prepare.__module__.startswith(f"{CATALOGUE}."):
        return ""
    # On another machine our modules are in an archive, where no path leads to them.
    content = pkgutil.get_data(SCRIPTS, f"{name}.py")
    return (content or b"").decode("utf-8")


def read_functions(script: str) -> str:
    """Return the functions and classes that a script defines, with a blank line between them."""
    lines = script.splitlines()
    parts = []
    for node in ast.parse(script).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n".join(parts)


def timed_source(prepare: Callable[..., object]) -> str:
    """Return the timed lines: a nested function ``timed``, or else the case's first argument.

    Where neither is found, for example if another function makes the case, return all lines.
    """
    source = textwrap.dedent(inspect.getsource(prepare))
    function = next(
        (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)), None
    )
    if function is None:
        raise ValueError("its source cannot be read: declare it with def")
    nested = {
        node.name: node
        for node in ast.walk(function)
        if isinstance(node, ast.FunctionDef) and node is not function
    }
    shown: ast.AST | None = nested.get("timed") or _find_timed_expression(function)
    if isinstance(shown, ast.Name):
        shown = nested.get(shown.id) or _assigned(function, shown.id) or shown
    if isinstance(shown, ast.Lambda):
        shown = shown.body
    if isinstance(shown, ast.expr):
        segment = ast.get_source_segment(source, shown) or ""
        return textwrap.dedent(" " * shown.col_offset + segment)
    body = (shown if isinstance(shown, ast.FunctionDef) else function).body
    first, last = body[0].lineno, body[-1].end_lineno
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 : last]))


def _find_timed_expression(function: ast.FunctionDef) -> ast.expr | None:
    """Return the first argument of the function's first ``Case``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Case":
            named = [item.value for item in node.keywords if item.arg == "timed"]
            return next(iter([*node.args, *named]), None)
    return None


def _assigned(function: ast.FunctionDef, name: str) -> ast.expr | None:
    """Return the last value that the function assigns to a name."""
    values = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return values[-1] if values else None
