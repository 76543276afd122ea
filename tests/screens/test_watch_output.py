"""The output of a run under the watch, in the list and on the run's page."""

from __future__ import annotations

import pytest

from tests.screens.every_screen import Scene, scenes
from tests.screens.opened import opened
from tests.screens.watched import device, unread, watched
from tests.tiers import VARIANT, with_variants
from tui.kit.pane import LinesView


@pytest.mark.parametrize("size", with_variants([(120, 40)], [(80, 24), (200, 55)]))
async def test_the_output_of_an_ended_run_opens_at_its_end(size: tuple[int, int]) -> None:
    over = watched(device(), unread(), over=True)
    async with opened(Scene((), ("l",), watched=over), size) as on:
        assert "step 240 loss" in on.text
        body = on.app.screen.query_one("#watched-output LinesView", LinesView)
        assert body.vertical_scrollbar.position == body.max_scroll_y > 0


@VARIANT
async def test_in_a_wide_terminal_the_output_stands_beside_the_memory() -> None:
    scene = Scene((), ("l",), watched=watched(device(), unread()))
    for size, is_beside in (((149, 55), False), ((150, 55), True), ((150, 24), True)):
        async with opened(scene, size) as on:
            row = on.row("Output   ")
            assert ("Memory of" in row) == is_beside
            await on.press("l")
            assert "Memory of" in on.text
            assert "Memory of" not in on.row("Output   ")


async def test_a_run_without_processes_has_its_output_alone() -> None:
    async with opened(Scene((), (), watched=watched()), (200, 55)) as on:
        assert on.row("Output   ")
        assert "Memory of" not in on.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@VARIANT
async def test_the_last_line_of_a_stored_runs_output_begins_on_the_screen(
    size: tuple[int, int],
) -> None:
    async with opened(scenes()["watch-kept"], size) as on:
        assert "exit code 1" in on.row("torchrun")
        # The beginning of the last line says what was refused; the rest of it may lie below.
        assert on.row("torch.OutOfMemoryError: CUDA out of memory")
        assert ("unallocated." in on.text) == (size == (120, 40))
