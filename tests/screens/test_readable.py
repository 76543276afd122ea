"""Every view can be read: without colors, with sixteen, in plain ASCII, at 60x20, color-blind.

One app walks through all views of a look, since a start costs more than the views that follow it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from io import StringIO

import pytest
from rich.color import Color, ColorType
from rich.console import Console
from rich.style import Style
from textual.scrollbar import ScrollBar

from tests.screens.app_helpers import Running, running
from tests.screens.contrast import DARK, LEAST, contrast, texts
from tests.screens.every_screen import CATALOGUE, SNAPSHOT, results, samples, started
from tests.screens.helpers import screen_strips
from tests.screens.watched import ScriptedRuns, kept_run, ran_out, unread, watched
from tests.tiers import VARIANT
from tui.core.settings import OWN_PALETTE
from tui.core.text import glyphs
from tui.kit.lines import TextStyle
from tui.kit.styles import IN_OWN_COLORS

VIEWS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("workbench", (), ()),
    ("devices", ("v",), ()),
    ("a device", ("enter",), ("escape",)),
    ("flags", ("F",), ()),
    ("detail", ("w", "i"), ("escape",)),
    ("log", ("l",), ("escape",)),
    ("filter", ("slash",), ("escape",)),
    ("parameters", ("equals_sign",), ("escape",)),
    ("run all", ("R",), ("escape",)),
    ("help", ("question_mark",), ("escape",)),
    ("palette", ("colon",), ("escape",)),
    ("themes", ("T",), ("escape",)),
    ("present", ("D",), ("escape",)),
    ("memory", ("2",), ()),
    ("snapshot", ("3",), ()),
    ("verdict", ("W",), ()),
    ("timeline", ("L",), ()),
    ("flame view", ("f",), ()),
    ("processes", ("4",), ()),
    ("a process", ("down", "enter"), ("escape",)),
    ("stored runs", ("5",), ()),
    ("a run", ("enter",), ()),
    ("end of a run", ("x",), ("escape",)),
    ("results", ("6",), ()),
)
"""The name of each, the keys that lead to it from the one before, and those that leave it."""


@asynccontextmanager
async def looking(size: tuple[int, int]) -> AsyncIterator[Running]:
    """Start the workbench with eight busy GPUs, results, an open snapshot and a watched run."""
    runs = ScriptedRuns(kept_run(), opens=watched(ran_out(), unread()))
    events = (*started(*samples(seconds=40)), *results())
    async with running(size, "empty", *events, runs=runs) as on:
        yield on


async def walk(on: Running) -> AsyncIterator[str]:
    """Go to each view and back; yield its name while it is shown."""
    on.app.open_snapshot(str(SNAPSHOT))
    snapshot = on.app.snapshot
    assert snapshot is not None
    await on.until(lambda: snapshot.session.ready)
    await on.press("1", "w")
    for view, keys, back in VIEWS:
        await on.press(*keys)
        await on.until(lambda: not snapshot.session.main.store.waiting)
        await on.until(lambda: "reading the stored runs" not in on.text)
        yield view
        await on.press(*back)


def colors(on: Running) -> Iterator[Color]:
    """Yield the colors of all that is drawn."""
    for strip in screen_strips(on.app):
        for segment in strip:
            style = segment.style or Style()
            if style.bgcolor is not None:
                yield style.bgcolor
            if style.color is not None and segment.text.strip():
                yield style.color


TITLES = {
    "workbench": "Workloads",
    "devices": "Devices",
    "a device": "cuda:0  NVIDIA H200",
    "flags": "Backends",
    "detail": "Detail",
    "log": "Log",
    "filter": "Workloads",
    "parameters": "Parameters of matmul",
    "run all": f"Run {len(CATALOGUE)} workloads?",
    "help": "Help",
    "palette": "type a command",
    "themes": "Theme",
    "present": "health  1 of 10",
    "memory": "Memory",
    "snapshot": "Verdict",
    "verdict": "Verdict",
    "timeline": "Timeline",
    "flame view": "Flame",
    "processes": "Processes",
    "a process": "train.py --rank 0",
    "stored runs": "Watched runs",
    "a run": "Run   torchrun",
    "end of a run": "End the run?",
    "results": "Results",
}
SELECTED = {
    "workbench": "matmul",
    "devices": "cuda:0",
    "filter": "matmul",
}
"""What the sign of the cursor stands at; others reverse the row."""
REVERSED = {
    "processes": "9000",
    "stored runs": "end unknown",
    "a run": "777",
    "flame view": "live memory",
}
LEAVES = ("quit", "escape", "q end", "\u256f")
"""What the footer of a view names, or the edge of a dialog that covers it."""


def has_reversed(on: Running, words: str) -> bool:
    """Return whether a row with these words is drawn as the cursor's without any color."""
    for strip in screen_strips(on.app):
        if words in strip.text:
            styles = [segment.style for segment in strip if segment.text.strip()]
            if any(style is not None and (style.reverse or style.underline) for style in styles):
                return True
    return False


@VARIANT
async def test_every_view_is_usable_without_colors_at_60x20(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with looking((60, 20)) as on:
        async for view in walk(on):
            assert {color.type for color in colors(on)} <= {ColorType.DEFAULT}, view
            assert len(on.rows) == 20, view
            assert TITLES[view] in on.text, (view, on.text)
            if view != "palette":  # its list goes down to the last row
                assert any(word in row for word in LEAVES for row in on.rows[-6:]), view
            if view in SELECTED:
                sign = f"{glyphs.GLYPHS.selected}"
                at = [row for row in on.rows if row.lstrip().startswith(sign)]
                assert any(SELECTED[view] in row for row in at), (view, on.text)
            if view in REVERSED:
                # The stored runs are listed a frame before their list has the focus.
                await on.until(partial(has_reversed, on, REVERSED[view]))


@VARIANT
async def test_every_view_can_be_read_in_sixteen_colors() -> None:
    wrong = []
    async with looking((80, 24)) as on:
        on.app.console = Console(color_system="standard", file=StringIO(), force_terminal=True)
        on.app.theme = OWN_PALETTE
        async for view in walk(on):
            own = {ColorType.DEFAULT, ColorType.STANDARD}
            wrong += [f"{view}: {color.name}" for color in colors(on) if color.type not in own]
            for style, text in {style: text for text, style, _ in texts(on.app)}.items():
                least = min(contrast(style, palette) for palette in DARK.values())
                if least < LEAST:
                    wrong.append(f"{view}: {text!r} in {style} has a contrast of {least:.2f}")
    assert not wrong, "\n".join(wrong)


WORD = re.compile(r"[^\W\d_]{3,}")
"""Says what the color says."""


async def test_every_view_is_plain_ascii_and_no_color_stands_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is yellow or red has a sign or a word, too: one man in twelve cannot tell them apart."""
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    monkeypatch.setattr(ScrollBar, "renderer", ScrollBar.renderer)
    warnings = {IN_OWN_COLORS[style].color for style in (TextStyle.NOTE, TextStyle.BAD)}
    signs = {glyphs.GLYPHS.warning, glyphs.GLYPHS.limit, "X"}
    wrong = []
    async with looking((120, 40)) as on:
        async for view in walk(on):
            wrong += [f"{view}: not ASCII: {row}" for row in on.rows if not row.isascii()]
            for text, style, _ in texts(on.app) if view != "themes" else ():
                alone = not (signs & set(text) or WORD.search(text))
                if style.color in warnings and alone:
                    wrong.append(f"{view}: {text!r} is told by its color alone")
    assert not wrong, "\n".join(wrong)
