"""Short messages over the screen: few, small and soon gone; the log keeps each of them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from textual.notifications import Notify, SeverityLevel

from tui.store.events import LogLine
from tui.store.store import Store
from tui.terminal.textual_private import drop_notification, notifications

if TYPE_CHECKING:
    from textual.app import App

    OfApp = App[None]
else:
    # What is mixed into an app need not be one: the framework takes half a millisecond for each.
    OfApp = object

MOST = 2
"""Messages at the same time; one more takes the place of the oldest."""
LEAST_S, LETTERS_A_SECOND = 3.0, 20
"""How long a message stays: long enough to be read."""
LEVELS: dict[SeverityLevel, Literal["info", "warning", "error"]] = {
    "information": "info",
    "warning": "warning",
    "error": "error",
}


class Toasts(OfApp):
    """Tells in passing; mixed into the app's actions."""

    store: Store

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message for as long as it takes to read, and log it."""
        if timeout is None:
            timeout = max(LEAST_S, len(message) / LETTERS_A_SECOND)
        self.store.apply(LogLine("workbench", message, LEVELS[severity]))
        self.log_changed()
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def log_changed(self) -> None:
        """Draw the log, where it is on the screen."""

    def on_notify(self, _event: Notify) -> None:
        """Make room; the framework's own handler adds the new one."""
        for old in notifications(self)[: 1 - MOST]:
            drop_notification(self, old)
