"""Sizes have one style in each pane: ``139.8G`` or ``139.8 GiB``."""

from __future__ import annotations

import re

import pytest

from tests.screens.app_helpers import running
from tests.screens.every_screen import busy_scene_events
from tests.screens.test_hosts import host_events
from tests.tiers import VARIANT, with_variants
from tui.kit.pane import Pane

SIZES = with_variants([(60, 20), (120, 40)], [(80, 24), (200, 60)])
SHORT = re.compile(r"\d[KMGT]\b")
FULL = re.compile(r"\d [KMGT]iB\b")


def mixed(pane: Pane) -> bool:
    """Return whether the pane has sizes of both styles, its title included."""
    text = Pane.clipboard_text(pane) if pane.display else ""
    return bool(SHORT.search(text) and FULL.search(text))


@pytest.mark.parametrize("size", SIZES)
@VARIANT
async def test_a_pane_has_one_style(size: tuple[int, int]) -> None:
    async with running(size, "empty", *busy_scene_events()) as on:
        for tab in ("1", "2", "4"):
            await on.press(tab)
            panes = list(on.app.front.query(Pane)) if on.app.front else []
            assert panes, tab
            assert not [pane.id for pane in panes if mixed(pane)], tab


@pytest.mark.parametrize("size", SIZES)
async def test_the_rows_of_hosts_have_the_style_of_their_gpus(size: tuple[int, int]) -> None:
    async with running(size) as on:
        await on.tell(*host_events())
        assert not mixed(on.workbench.devices)
