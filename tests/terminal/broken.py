"""Run the program and let one part of it fail: ``broken.py WHERE``.

WHERE: ``drawing N``, the N-th redraw after a change; ``look N``, the N-th redraw of ages; ``key``,
the action of ``i``; ``event N``, the handler of the N-th event of a child; ``paint``, a pane's
redraw; ``start``, the start of the children's tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tui.app.drawing import Drawing
from tui.cli.main import main
from tui.core.events import EventBus
from tui.core.tasks import Tasks
from tui.devices.screens.panes import DevicesPane
from tui.runs.screens.tab import WorkbenchScreen
from tui.runs.session import session

WORDS = "broken on purpose [/x]"


def _after(count: int, function: Callable[..., Any]) -> Callable[..., Any]:
    left = [count]

    def fails(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] <= 0:
            secret = "hunter2"
            raise RuntimeError(f"{WORDS} {len(secret)}")
        return function(*arguments, **named)

    return fails


def _break_event(count: int) -> None:
    """Let an event's handler fail, counted from the runner's start: before, there is no screen."""
    start = session.Session.start

    async def start_and_fail(self: session.Session) -> None:
        broken = _after(count, EventBus.publish)
        EventBus.publish = broken  # type: ignore[method-assign]
        # The monitor runs already and publishes through the function that it was given.
        assert self._monitor is not None
        self._monitor._publish = self.state.bus.publish
        await start(self)

    session.Session.start = start_and_fail  # type: ignore[method-assign]


def break_it(where: str) -> None:
    """Let one part fail."""
    kind, _, count = where.partition(" ")
    if kind == "event":
        _break_event(int(count))
        return
    owner, name = {
        "drawing": (Drawing, "_draw_due"),
        "look": (Drawing, "_redraw_aged"),
        "key": (WorkbenchScreen, "action_show_detail"),
        "paint": (DevicesPane, "state_changed"),
        "start": (Tasks, "spawn"),
    }[kind]
    setattr(owner, name, _after(int(count or 1), getattr(owner, name)))


if __name__ == "__main__":
    break_it(sys.argv.pop(1))
    sys.exit(main())
