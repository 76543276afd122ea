"""A canary for each private part of Textual that the program uses.

Each says, if an upgrade of Textual has changed it, what stops working. All of them are used in
``tui/kit/terminal/textual_private.py`` and nowhere else.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version

import pytest
from rich.text import Text
from textual._styles_cache import StylesCache
from textual.app import ComposeResult
from textual.css.scalar import Scalar
from textual.geometry import Region
from textual.widgets import Static

import tui
from tests.screens.fakes import FakeSession
from tests.screens.helpers import make_store
from tests.tiers import VARIANT
from tui.app.workbench import WorkbenchApp
from tui.kit.terminal import textual_private
from tui.kit.terminal.textual_private import (
    HookedApp,
    drop_older,
    forget_caches,
    notifications,
    write_to_terminal,
)

SINCE = f"Textual {version('textual')}: "
PRIVATE = re.compile(r"_[a-z]\w*")
SET = re.compile(r"self\.(_[a-z]\w*)\s*(?::[^=\n]+)?=[^=]")


class Small(HookedApp):
    """An app that notes what passes its hooks."""

    def compose(self) -> ComposeResult:
        yield Static("first words")

    def format_error(self, error: BaseException | None) -> Text:
        return Text(f"ended by {error!r}")


# ---- errors --------------------------------------------------------------------------------------


async def _ended_by(app: Small, error: Exception, *, in_a_callback: bool) -> None:
    def fails() -> None:
        raise error

    async with app.run_test(size=(40, 5)) as pilot:
        if in_a_callback:
            app.call_later(fails)
        else:
            app.fail(error)
        await pilot.pause()


@pytest.mark.parametrize("in_a_callback", [True, False])
async def test_an_error_ends_the_app_with_our_words_alone(
    capsys: pytest.CaptureFixture[str], in_a_callback: bool
) -> None:
    app = Small()
    with pytest.raises(LookupError, match="broken"):
        await _ended_by(app, LookupError("broken"), in_a_callback=in_a_callback)
    why = f"{SINCE}App._fatal_error, _handle_exception, _exception or _exit_renderables changed: "
    said = capsys.readouterr().err.strip()
    assert said == "ended by LookupError('broken')", f"{why}a traceback with locals is printed"
    assert app.return_code == 1, f"{why}an error ends the app as if there were none"


async def test_of_two_errors_the_first_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    app = Small()

    async def run() -> None:
        async with app.run_test(size=(40, 5)):
            app.fail(LookupError("first"))
            app.fail(LookupError("second"))

    with pytest.raises(LookupError, match="first"):
        await run()
    why = f"{SINCE}App._exit_renderables changed: what follows from an error is told too"
    assert capsys.readouterr().err.strip() == "ended by LookupError('first')", why


# ---- messages over the screen --------------------------------------------------------------------


async def test_the_oldest_message_can_be_dropped() -> None:
    app = Small()
    async with app.run_test(size=(40, 9), notifications=True) as pilot:
        for words in ("first", "second"):
            app.notify(words)
        await pilot.pause()
        shown = [item.message for item in notifications(app)]
        assert shown == ["first", "second"], f"{SINCE}App._notifications is not what is shown"
        drop_older(app, 1)
        shown = [item.message for item in notifications(app)]
        assert shown == ["second"], f"{SINCE}App._unnotify does not take a message away"


# ---- what the framework keeps --------------------------------------------------------------------


def _kept() -> int:
    """Entries in the caches of the framework's geometry and styles."""
    methods = [item for kind in (Region, Scalar, StylesCache) for item in vars(kind).values()]
    return sum(item.cache_info().currsize for item in methods if hasattr(item, "cache_info"))


def _held() -> int:
    """Widgets whose drawn lines are still held."""
    forget_caches()
    gc.collect()
    return sum(isinstance(item, StylesCache) for item in gc.get_objects())


async def test_the_caches_are_where_they_are_looked_for() -> None:
    app = WorkbenchApp(FakeSession(make_store()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert _kept(), f"{SINCE}no caches on Region, Scalar and StylesCache: forget nothing"
        forget_caches()
        assert _kept() == 0


@VARIANT
async def test_dialogs_that_were_closed_are_not_kept() -> None:
    app = WorkbenchApp(FakeSession(make_store()))
    held = []
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(4):
            for key in ("question_mark", "escape"):
                await pilot.press(key)
                await pilot.pause()
            held.append(_held())
    assert held[-1] <= held[0], f"{SINCE}something else than these caches holds closed dialogs"


async def test_it_is_drawn_as_before() -> None:
    app = WorkbenchApp(FakeSession(make_store()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        before = app.export_screenshot()
        forget_caches()
        app.screen.refresh(layout=True)
        await pilot.pause()
        assert app.export_screenshot() == before


# ---- nowhere else --------------------------------------------------------------------------------


def _modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if not module.name.endswith("__main__") and module.name != textual_private.__name__:
            yield module.name


@cache
def _private_names(base: type) -> frozenset[str]:
    """Private names of one of Textual's classes, and those that its methods set."""
    actual = {*vars(base), *SET.findall(inspect.getsource(base))}
    return frozenset(name for name in actual if PRIVATE.fullmatch(name))


def _framework_s_own(kind: type) -> set[str]:
    """Private names of what a class inherits from Textual."""
    bases = (base for base in kind.__mro__ if base.__module__.startswith("textual."))
    return {name for base in bases for name in _private_names(base)}


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a class reads from itself or its bases, and those that it defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute):
            target = node.value.func if isinstance(node.value, ast.Call) else node.value
            if isinstance(target, ast.Name) and target.id in ("self", "cls", "super"):
                yield node.attr


def _uses(name: str) -> Iterator[str]:
    """Yield the private names that a module uses."""
    module = importlib.import_module(name)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom):
            yield from (actual for actual in [node.module or ""] if actual.startswith("textual._"))
        elif isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name.startswith("textual._"))
        elif isinstance(node, ast.ClassDef):
            kind = getattr(module, node.name, None)
            if isinstance(kind, type):
                private = _framework_s_own(kind) & set(_names(node))
                yield from (f"{node.name}.{item}" for item in private)


def test_no_other_file_uses_a_private_part() -> None:
    actual = {name: uses for name in _modules() if (uses := list(_uses(name)))}
    assert not actual, f"to be gathered in {textual_private.__file__}"


async def test_an_escape_sequence_is_written_by_the_driver_and_nothing_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = HookedApp()
    async with app.run_test():
        driver = app._driver
        assert driver is not None, SINCE + "the app's driver has another name: no alarm is written"
        written: list[str] = []
        monkeypatch.setattr(driver, "write", written.append)
        write_to_terminal(app, "\a")
        assert written == []  # a test has no terminal
