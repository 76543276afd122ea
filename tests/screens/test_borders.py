"""Borders between columns of panes: keys and the mouse move them, and they are remembered."""

from __future__ import annotations

from tests.screens.app_helpers import Running, running
from tui.core.borders import Borders


def widths(at: Running) -> dict[str, int]:
    return {name: pane.region.width for name, pane in at.workbench.panes.items() if pane.display}


async def test_a_wide_screen_has_three_columns_without_empty_ones() -> None:
    async with running((200, 60), "two gpus") as at:
        panes = at.workbench.panes
        assert all(pane.display and pane.region.height > 1 for pane in panes.values())
        assert panes["devices"].region.right == panes["workloads"].region.x
        assert panes["workloads"].region.right == panes["detail"].region.x
        assert panes["memory"].region.x == panes["devices"].region.x
        # Every figure of the selected GPU has its history, and the memory pane only its lines.
        for label in ("util", "memory", "power", "temp", "PCIe"):
            assert at.row(f" {label} ")
        assert panes["memory"].region.bottom == at.workbench.size.height - 1


async def test_keys_move_the_border_beside_the_focused_pane() -> None:
    async with running((200, 60), "two gpus") as at:
        before = widths(at)
        before_left, before_right = at.app.borders.left, at.app.borders.right
        await at.press("greater_than_sign")
        after = widths(at)
        assert after["workloads"] == before["workloads"] + 4
        assert after["detail"] == before["detail"] - 4
        assert after["devices"] == before["devices"]
        await at.press("v", "less_than_sign")
        assert widths(at)["devices"] == before["devices"] - 4
        assert at.app.borders == Borders(50, before_left - 2, before_right + 2)


async def test_two_columns_have_one_border() -> None:
    async with running((120, 40), "two gpus") as at:
        before = widths(at)
        await at.press("greater_than_sign")
        assert widths(at)["devices"] > before["devices"]
        assert widths(at)["devices"] + widths(at)["memory"] == sum(
            before[name] for name in ("devices", "memory")
        )


async def test_a_narrow_screen_has_no_border_to_move() -> None:
    async with running((80, 24), "two gpus") as at:
        await at.press("greater_than_sign")
        assert at.app.borders == Borders()


async def test_the_mouse_drags_a_border() -> None:
    async with running((200, 60), "two gpus") as at:
        edge, right = at.workbench.panes["workloads"].region.right, at.app.borders.right
        await at.pilot.mouse_down(offset=(edge, 20))
        await at.pilot.hover(offset=(edge - 10, 20))
        await at.pilot.mouse_up(offset=(edge - 10, 20))
        await at.settle()
        assert at.app.borders.right == right - 5
        await at.pilot.hover(offset=(edge - 30, 20))
        assert at.app.borders.right == right - 5
