"""What a fresh interpreter loads: the screens neither torch nor NVML."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import pytest

HEAVY = ("torch", "numpy", "pynvml", "psutil", "pandas", "hypothesis")
SCREENS = ("textual", "rich")


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


def test_a_start_reaches_nothing_of_what_its_first_screen_does_not_show() -> None:
    later = {
        "tui.runs.sweeps.sweep_result",
        "tui.watch.state.run",
        *(f"tui.ui.views.{name}" for name in ("chart", "detail", "outcome", "plot", "scale")),
        *(f"tui.ui.screens.{name}" for name in ("dialogs", "memory", "processes", "snapshot")),
        "textual.widgets._text_area",
    }
    code = "import sys, tui.app.workbench; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not later & set(done.stdout.split())
