"""The first frame of a new size, which Textual draws before it sends the resize events."""

from __future__ import annotations

import pytest
from textual import events
from textual.app import ComposeResult

from tests.screens.helpers import StyledApp, screen_text
from tui.kit.lines import Line, line, plain
from tui.kit.pane import FittedView, LineBar


class LateBar(LineBar):
    """A bar whose resize event has not arrived."""

    def on_resize(self, event: events.Resize) -> None:
        event.prevent_default()


class LateView(FittedView):
    """A view whose resize event has not arrived."""

    def on_resize(self, event: events.Resize) -> None:
        event.prevent_default()


def _draw_rows(cells: int, rows: int) -> list[Line]:
    return [line(f"{row} of {rows} ".ljust(cells, "-")) for row in range(rows)]


class Late(StyledApp):
    CSS = "LateBar { height: 1; } LateView { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield LateBar(lambda cells: line("b" * cells))
        yield LateView(_draw_rows)


@pytest.mark.parametrize("size", [(30, 6), (90, 9)])
async def test_the_first_frame_of_a_new_size_is_drawn_for_it(size: tuple[int, int]) -> None:
    app = Late()
    async with app.run_test(size=(60, 7)) as pilot:
        await pilot.resize_terminal(*size)
        drawn = [row.strip() for row in screen_text(app)]
        bar, view = app.query_one(LateBar).size, app.query_one(LateView).size
        assert bar.width > size[0] - 4
        assert drawn[0] == "b" * bar.width
        assert drawn[1:] == [plain(row) for row in _draw_rows(*view)]
