"""Titles of panes: what of the border is redrawn for a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import App, ComposeResult
from textual.containers import Container
from textual.geometry import Region

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
