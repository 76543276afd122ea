"""A command that is watched without the screen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tui.kit.command_line.alarm import CommandAlarm
from tui.watch.cli import launch
from tui.watch.cli.launch import RunWithoutScreen
from tui.watch.session.followed_run import VISIBLE_S
from tui.watch.session.sampler import SAMPLE_S, Sampler


async def test_it_is_first_read_as_often_as_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Growth needs 48 readings or 30 s: the conclusion on a short run must be the page's.
    paces: list[float] = []

    class Recorded(Sampler):
        def set_pace(self, seconds: float) -> None:
            paces.append(seconds)
            super().set_pace(seconds)

    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    monkeypatch.setattr(launch, "Sampler", Recorded)
    monkeypatch.setattr(launch, "SHORTEST_GROWTH_S", 0.0)
    command = (sys.executable, "-c", "pass")
    await RunWithoutScreen(command, None, shows_output=False, alarm=CommandAlarm({})).run()
    assert paces == [VISIBLE_S, SAMPLE_S]
