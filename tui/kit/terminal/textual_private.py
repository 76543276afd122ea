"""Every private part of Textual that the program uses, and why no public part suffices.

No other module uses a name of Textual that begins with an underscore. A test of each in
``tests/screens/test_textual_private.py`` states what to check when an upgrade of Textual changes
it.
"""

from __future__ import annotations

import sys
from typing import Any

from rich.text import Text
from textual._styles_cache import StylesCache
from textual.app import App
from textual.css.scalar import Scalar
from textual.geometry import Region
from textual.notifications import Notification, Notify

FORGET_S = 30.0
"""Seconds between two calls of :func:`forget_caches`; entries in use are computed again at once."""
MOST_NOTIFICATIONS = 2
"""Most messages shown at a time; another one replaces the oldest."""
_CACHED: tuple[Any, ...] = tuple(
    method
    for kind in (Region, Scalar, StylesCache)
    for method in vars(kind).values()
    if hasattr(method, "cache_clear")
)
"""Methods under :func:`functools.lru_cache`."""


class HookedApp(App[None]):
    """An app that sets the text printed after an error, and shows few messages at once."""

    def format_error(self, error: BaseException | None) -> Text:
        """Return the text printed after an error that ends the app; a subclass overrides it."""
        return Text(f"{type(error).__name__}: {error}")

    def fail(self, error: Exception) -> None:
        """End the app with an error that was raised outside its handlers.

        The public way is to raise it in a callback, but an app that is closing runs no callbacks,
        and the error would be lost.
        """
        self._handle_exception(error)

    def on_notify(self, _event: Notify) -> None:
        """Make room for a message, which Textual's own handler adds."""
        drop_older(self, MOST_NOTIFICATIONS - 1)

    def _fatal_error(self) -> None:
        """Print :meth:`format_error` and end.

        Textual prints a traceback with the values of all local variables, paths and tokens among
        them; no setting says otherwise.
        """
        if self._exit_renderables:
            return  # later errors follow from the first
        self.panic(self.format_error(self._exception or sys.exc_info()[1]))


def notifications(app: App[Any]) -> list[Notification]:
    """Return the shown messages, the oldest first. Textual only lets one clear them all."""
    return list(app._notifications)  # noqa: SLF001


def drop_older(app: App[Any], count: int) -> None:
    """Remove all messages but the newest, for the same reason as :func:`notifications`.

    The screen is updated with the next message.
    """
    shown = notifications(app)
    for old in shown[: max(0, len(shown) - count)]:
        app._unnotify(old, refresh=False)  # noqa: SLF001


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Write an escape sequence that draws nothing, between two frames.

    Textual's public methods write only the bell and the clipboard. Its driver writes in a thread,
    so a write that bypasses the driver could split another sequence.
    """
    if app._driver is not None and not app.is_headless:  # noqa: SLF001
        app._driver.write(sequence)  # noqa: SLF001
        app._driver.flush()  # noqa: SLF001


def forget_caches() -> None:
    """Clear Textual's caches, most of whose entries are out of date.

    It caches computations on regions, thousands of each kind, most of which belong to one size of
    the terminal. ``StylesCache``, which has no public name, references every widget that was drawn,
    such as a closed dialog or a toast with all of its lines. A day of use would cost some 20 MB.
    """
    for method in _CACHED:
        method.cache_clear()
