"""The names of the catalogue's figures: plain words, one name for one thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import workloads.catalog
from workloads.protocol.figure_names import NAMES, name_figure

SOURCES = tuple(Path(workloads.catalog.__path__[0]).rglob("*.py"))
GIVEN = frozenset({"figure", "factor", "absent", "_difference", "_overtakes"})
"""Functions that are given the key of a figure."""
BUILT = frozenset({"overtakes", "overtakes_with_copies", "launch_s"})
"""Keys that the sources name elsewhere."""
LONGEST = 32


def keys() -> Iterator[str]:
    """Yield the keys that the catalogue gives as literals."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                name = node.func.id if isinstance(node.func, ast.Name) else name
                # A function of a file is given the study first.
                given = node.args[name.startswith("_") :][:1] if name in GIVEN else []
                for each in given:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield each.value


def test_every_name_belongs_to_a_figure_and_no_two_are_alike() -> None:
    found = {*keys()}
    assert len(found) > 80
    assert {*NAMES} - found <= BUILT
    names = [name_figure(key) for key in found]
    assert sorted(names) == sorted({*names})


def test_names_are_short_words() -> None:
    found = {*keys()}
    assert found
    for key in found:
        words = name_figure(key)
        assert "_" not in words, key
        assert len(words) <= LONGEST, key
        assert words[-3:] not in (" to", " of"), key
