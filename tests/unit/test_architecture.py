"""docs/architecture.md names folders, files and calls that exist, and all folders there are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def folders() -> set[str]:
    """Every folder of code at the top of the two packages, as the page names them."""
    return {
        folder.parent.relative_to(ROOT).as_posix()
        for package in ("tui", "workloads")
        for folder in (ROOT / package).glob("*/__init__.py")
    }


def is_defined(dotted: str) -> bool:
    """Whether a module, or a name or method at the top of one, is there."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:length])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.exists():
                return _has(ast.parse(path.read_text(encoding="utf-8")), parts[length:])
    return False


def _has(tree: ast.Module | ast.ClassDef, names: list[str]) -> bool:
    if not names:
        return True
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == names[0]:
            return _has(node, names[1:])
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == names[0]:
            return names[1:] == []
    return False


def test_every_folder_has_a_line() -> None:
    folders_part = TEXT.partition("## Glossary")[0]
    lines = re.findall(r"^\| (.*?) \|", folders_part, re.MULTILINE)
    named = {name for cell in lines for name in re.findall(r"`([\w/.]+)`", cell)}
    assert {name for name in named if not name.endswith(".py")} == folders()


def test_every_path_that_it_names_exists() -> None:
    paths: list[str] = re.findall(r"`((?:tui|workloads)/[\w/.]*)`", TEXT)
    assert len(paths) > 30
    assert [name for name in paths if not (ROOT / name).exists()] == []


def test_every_call_that_it_names_exists() -> None:
    calls = re.findall(r"`((?:tui|workloads)\.[\w.]+)`", TEXT)
    assert len(calls) > 30
    assert [name for name in calls if not is_defined(name)] == []


def test_no_class_name_is_used_twice() -> None:
    # Without a parser, which would take a second for all files; nested classes are indented.
    declared = re.compile(r"^ *class (\w+)", re.MULTILINE)
    found = Counter(
        name
        for package in ("tui", "workloads")
        for path in (ROOT / package).rglob("*.py")
        for name in declared.findall(path.read_text(encoding="utf-8"))
    )
    assert len(found) > 500
    assert [name for name, count in found.items() if count > 1] == []


def test_the_verbs_of_functions_say_what_happens() -> None:
    verbs = "say|tell|told|hold|holds|held|look|looks|take|takes|keep|keeps|ask|asks"
    named = re.compile(rf"^ *(?:async )?def _?((?:{verbs})(?:_\w+)?)\(", re.MULTILINE)
    found = {
        name
        for package in ("tui", "workloads")
        for path in (ROOT / package).rglob("*.py")
        for name in named.findall(path.read_text(encoding="utf-8"))
    }
    idioms = ("keep_alive", "take_over", "take_inventory")
    assert sorted(name for name in found if not name.startswith(idioms)) == []


def test_it_fits_on_three_pages() -> None:
    assert len(TEXT.splitlines()) <= 190


def test_the_readme_has_one_picture_and_at_most_250_lines() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    assert text.count("![") == 1
