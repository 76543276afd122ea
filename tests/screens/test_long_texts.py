"""A dialog with more text than the screen has rows scrolls to its end."""

from __future__ import annotations

from tests.screens.app_helpers import running
from tui.kit.dialogs import TextScreen
from tui.kit.lines import Line, line

LAST = 59


def long_text(_cells: int) -> list[Line]:
    return [line(f"row {number:02}") for number in range(LAST + 1)]


async def test_the_end_of_a_long_text_can_be_reached() -> None:
    async with running((80, 24)) as on:
        on.app.push_screen(TextScreen("Long", long_text))
        await on.until(lambda: "row 00" in on.text)
        assert f"row {LAST}" not in on.text
        await on.press("end")
        await on.until(lambda: f"row {LAST}" in on.text)
