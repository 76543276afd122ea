"""Titles of panes: what is loud in them, and what of the border is redrawn for a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.containers import Container
from textual.geometry import Region

from tests.screens.app_helpers import Running, running
from tests.screens.helpers import screen_strips
from tests.tiers import VARIANT
from tui.core.settings import OWN_PALETTE, THEME
from tui.kit.frames import is_framed
from tui.kit.lines import Span, TextStyle, title_line
from tui.kit.pane import Pane

if TYPE_CHECKING:
    from typing_extensions import Self


class Recorder(Container):
    """Records what it is asked to redraw."""

    def __init__(self, **names: Any) -> None:
        self.regions: list[Region] = []
        super().__init__(**names)

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        self.regions += regions
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


class RecordedPane(Pane, Recorder):
    """A pane whose redraws are recorded."""


class OnePane(App[None]):
    CSS = "Pane { border: solid white; border-title-align: left; }"

    def compose(self) -> ComposeResult:
        yield RecordedPane()


async def test_a_new_title_redraws_both_titles_and_not_the_rule_behind_them() -> None:
    app = OnePane()
    async with app.run_test(size=(60, 6)):
        pane = app.query_one(RecordedPane)
        pane.retitle("cuda:0 \u9577\u3044")
        pane.regions.clear()
        pane.retitle("cpu")
        (redrawn,) = pane.regions
    # The corner, a rule, and a blank on either side; the wide letters take two cells.
    assert redrawn.offset == (-1, -1)
    assert redrawn.height == 1
    assert 2 + len(" cuda:0 ") + 4 + 1 <= redrawn.width < 20


def test_problems_in_a_title_have_the_color_of_their_sign_and_other_facts_are_quiet() -> None:
    assert title_line("Devices   8x H200   ! 1 throttled   \u25b4 1 at power cap") == (
        Span("Devices", TextStyle.STRONG),
        Span("   8x H200", TextStyle.QUIET),
        Span("   ! 1 throttled", TextStyle.BAD),
        Span("   \u25b4 1 at power cap", TextStyle.NOTE),
    )


def title_of(on: Running, word: str) -> dict[str, Segment]:
    """Return the segments of the row of a title, by their text without blanks."""
    row = next(strip for strip in screen_strips(on.app) if word in strip.text)
    return {segment.text.strip(): segment for segment in row}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("theme", [THEME, OWN_PALETTE, "textual-light"])
async def test_the_focus_makes_the_name_of_a_title_loud_and_not_its_facts(
    theme: str, size: tuple[int, int]
) -> None:
    async with running(size, "two gpus") as on:
        on.app.theme = theme
        await on.press("m", "v")
        await on.settle()
        devices, memory = title_of(on, "Devices"), title_of(on, "Memory")
        heavy = "┏━" in on.row("Devices")
    name, facts = devices["Devices"].style, devices["2x H200"].style
    assert name is not None
    assert facts is not None
    assert name.bold
    assert not facts.reverse
    assert not facts.bold
    other = memory["Memory"].style
    assert other is not None
    assert other.bold
    assert not other.reverse
    # In a frame, reverse would also mark the blank behind the facts: the frame is heavy instead, or
    # in a dark theme with colors of its own, it and the name have another one.
    framed = is_framed(*size)
    assert bool(name.reverse) is not framed
    colored = name.color not in (other.color, facts.color)
    assert not framed or (colored if theme == THEME else heavy)


async def test_a_title_has_the_colors_of_the_present_theme() -> None:
    async with running((120, 40), "two gpus") as on:
        before = title_of(on, "Devices")["2x H200"].style
        on.app.theme = "textual-light"
        await on.settle()
        assert title_of(on, "Devices")["2x H200"].style != before


@pytest.mark.parametrize("theme", [THEME, "nord", "textual-light"])
async def test_header_and_footer_have_a_ground_of_their_own_in_dark_themes(theme: str) -> None:
    async with running((120, 40), "two gpus") as on:
        on.app.theme = theme
        await on.settle()
        page = on.app.screen.styles.background
        for bar in ("HeaderBar", "FooterBar"):
            ground = on.app.screen.query_one(bar).styles.background
            assert (ground.a > 0 and ground != page) is (theme != "textual-light"), bar


@VARIANT
async def test_a_title_fits_the_frame_that_a_hidden_tab_gets_when_it_is_shown() -> None:
    async with running((120, 40), "two gpus") as on:
        await on.press("4", "2", "1")
        await on.resize(80, 24)
        await on.press("2")
        await on.settle()
        narrow = on.row("Memory   cuda:0")
        await on.press("1")
        await on.resize(200, 60)
        await on.press("4")
        await on.settle()
        wide = on.row("tree by")
    assert narrow.startswith("━ Memory   cuda:0")
    assert " free ━" in narrow
    assert wide.startswith("╭─ Processes   tree by memory ─")
