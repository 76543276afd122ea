"""Whole screens as plain text.

They are kept in ``tests/screens/golden``. After a wanted change write them anew and read the diff:

    GPU_WORKBENCH_UPDATE_GOLDEN=1 pytest tests/screens/test_golden.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.screens.app_helpers import running
from tests.screens.helpers import Kind, make_store
from tests.screens.results import busy
from tests.screens.test_hosts import twenty_gpus
from tests.screens.watched import ScriptedRuns, kept_run, ran_out, unread, watched
from tui.recordings.lines import AnyEvent
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages

FOLDER = Path(__file__).with_name("golden")
UPDATE = bool(os.environ.get("GPU_WORKBENCH_UPDATE_GOLDEN"))


WHERE_TORCH_IS = (
    "use another environment's torch: gpu-workbench --python PATH; or install it:"
    " /opt/bare/bin/python -m pip install torch"
)


def busy_events() -> list[AnyEvent]:
    """Return the events that :func:`busy` feeds."""
    heard: list[AnyEvent] = []
    state = WorkbenchState()
    state.bus.observe(lambda event: heard.append(cast(AnyEvent, event)))
    busy(state)
    return heard


SCREENS: dict[str, tuple[tuple[int, int], Kind, list[AnyEvent], tuple[str, ...]]] = {
    "busy-80x24": ((80, 24), "two gpus", busy_events(), ()),
    "busy-120x40": ((120, 40), "two gpus", busy_events(), ()),
    "busy-100x30": ((100, 30), "two gpus", busy_events(), ()),
    "busy-200x50": ((200, 50), "two gpus", busy_events(), ()),
    "busy-60x20": ((60, 20), "two gpus", busy_events(), ()),
    "backend-60x20": ((60, 20), "two gpus", busy_events(), ("F",)),
    "hosts-80x24": ((80, 24), "two gpus", list(twenty_gpus()), ("shift+tab", "shift+tab")),
    "detail-80x24": ((80, 24), "one gpu", busy_events(), ("i",)),
    "no-gpu-80x24": ((80, 24), "no gpu", [], ()),
    "starting-80x24": ((80, 24), "empty", [], ()),
    "no-torch-80x24": (
        (80, 24),
        "no gpu",
        [messages.Unusable("there is no torch in /opt/bare/bin/python", WHERE_TORCH_IS)],
        (),
    ),
    "parameters-80x24": ((80, 24), "one gpu", [], ("equals_sign",)),
    "memory-60x20": ((60, 20), "two gpus", busy_events(), ("2",)),
    "memory-80x24": ((80, 24), "two gpus", busy_events(), ("2",)),
    "memory-200x50": ((200, 50), "two gpus", busy_events(), ("2",)),
    "processes-60x20": ((60, 20), "one gpu", busy_events(), ("4",)),
    "processes-80x24": ((80, 24), "one gpu", busy_events(), ("4",)),
    "processes-120x40": ((120, 40), "one gpu", busy_events(), ("4",)),
    "watch-60x20": ((60, 20), "one gpu", busy_events(), ("5", "enter")),
    "watch-80x24": ((80, 24), "one gpu", busy_events(), ("5", "enter")),
    "watch-120x40": ((120, 40), "one gpu", busy_events(), ("5", "enter")),
    "watch-200x55": ((200, 55), "one gpu", busy_events(), ("5", "enter")),
    "help-80x24": ((80, 24), "one gpu", [], ("question_mark",)),
}


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Show the local times of one zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("name", SCREENS)
async def test_the_screen_is_as_it_was(name: str) -> None:
    size, kind, events, keys = SCREENS[name]
    runs = ScriptedRuns(kept_run(), opens=watched(ran_out(), unread()))
    async with running(size, kind, *events, runs=runs) as on:
        for key in keys:
            await on.press(key)
            # A thread reads what the runs have left.
            await on.until(
                lambda: on.app.watched is None or on.app.watched.runs_pane.runs is not None
            )
            await on.settle()
        # What a key changed in other rows is drawn a moment later.
        on.app.draw_now()
        await on.settle()
        shown = "".join(f"{row}\n" for row in on.rows)
    path = FOLDER / f"{name}.txt"
    if UPDATE:
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_no_golden_screen_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCREENS)


def test_the_busy_screen_is_made_of_events() -> None:
    one, other = make_store("one gpu"), make_store("one gpu", *busy_events())
    busy(one)
    assert one.runs.book == other.runs.book
