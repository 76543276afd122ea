"""What a fresh interpreter loads: the screens neither torch nor NVML."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tui.kit.commands.command import TABS

HEAVY = ("torch", "numpy", "pynvml", "psutil", "pandas", "hypothesis")
SCREENS = ("textual", "rich")
TUI = Path(__file__).resolve().parents[2] / "tui"
MOST_DEFERRED = 12
"""Functions that may import inside their body: what a start or a command would wait for in vain.
Each says beside the import what the import costs. The commands of ``tui.cli.program`` are a table
beside them."""


@cache
def loaded(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "module", ["tui.app.workbench", "tui.runs.screens.tab", "tui.app.commands"]
)
def test_the_screens_reach_neither_torch_nor_nvml(module: str) -> None:
    assert not loaded(module) & set(HEAVY)


@pytest.mark.parametrize(
    "module", ["tui.app.commands", "tui.runs.state.parameters", "tui.kit.terminal.ending"]
)
def test_what_needs_no_screen_reaches_no_textual(module: str) -> None:
    assert not loaded(module) & set(SCREENS)


def test_the_monitor_is_started_before_the_screens_are_imported() -> None:
    slow = (*SCREENS, "asyncio", "argparse")
    code = f"""
import sys
import tui.app.start as program

def launch(*_arguments, **_options):
    print([name for name in {slow!r} if name in sys.modules])
    sys.exit(0)

program.launch = launch
program.check_terminal = lambda: None
program.open_workbench(program.WorkbenchOptions())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "module", ["tui.app.workbench", "tui.runs.session.session", "tui.app.start"]
)
def test_a_start_reaches_no_store_of_results(module: str) -> None:
    code = f"import sys, {module}; print(*(name for name in sys.modules if name == 'sqlite3' or"
    code += " name.startswith('tui.results.store')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["tui.app.start", "tui.results.store.recorder"])
def test_a_start_reaches_no_sqlite(module: str) -> None:
    assert "sqlite3" not in loaded(module)


@pytest.mark.parametrize("module", ["tui.runs.session.session", "tui.cli.program"])
def test_what_names_no_other_hosts_imports_no_connection_to_them(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tui.hosts.children", "tui.hosts.monitor"} & set(done.stdout.split())


def _screens_imported_later(module: str) -> set[str]:
    """Return the modules of screens that the functions of a module import."""
    imports = (
        node.module or ""
        for function in ast.walk(ast.parse(_source(module)))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
    )
    return {name for name in imports if ".screens." in name}


def _screens_of_tabs() -> set[str]:
    """Return the modules of screens that are imported together, in a thread."""
    imports = (
        node.module or ""
        for node in ast.parse(_source("tui.app.tab_screens")).body
        if isinstance(node, ast.ImportFrom)
    )
    return {name for name in imports if ".screens." in name}


def _source(module: str) -> str:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text(encoding="utf-8")


def _deferred() -> list[str]:
    """Return the functions of ``tui`` that import modules when they are called."""
    sources = {path: path.read_text(encoding="utf-8") for path in TUI.rglob("*.py")}
    indented = re.compile(r"^\s+(from \S+ )?import ", re.MULTILINE)
    return sorted(
        f"{path.relative_to(TUI).as_posix()}: {function.name}"
        for path, source in sources.items()
        if indented.search(source)
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))
    )


def test_few_functions_import_what_only_they_need() -> None:
    found = _deferred()
    assert len(found) <= MOST_DEFERRED, "\n".join(found)


def test_a_start_reaches_no_screen_that_is_opened_later() -> None:
    code = "import sys, tui.app.workbench; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded_modules = set(done.stdout.split())
    own = [name for name in loaded_modules if name.startswith("tui.")]
    later = set().union(_screens_of_tabs(), *map(_screens_imported_later, own))
    assert len(later) >= len(TABS) - 1, "each tab but the first is imported when it is opened"
    assert not later & loaded_modules
