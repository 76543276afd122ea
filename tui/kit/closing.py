"""Screens that lie over another one, and close once.

The app hands each key to the screen that is on top when the key arrives, and that screen handles it
later. Of two quick keys that both close a dialog, the second reaches the dialog after it has
closed. Textual's ``dismiss`` then pops whichever screen is on top: the one below.
"""

from __future__ import annotations

from typing import TypeVar

from textual import on
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Input, OptionList

R = TypeVar("R")


class ClosesOnce(Screen[R]):
    """A screen whose first answer counts; what was typed after it goes nowhere."""

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        """Close with a result, if it is on top; it has closed already where it is not."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(ClosesOnce[R], ModalScreen[R]):
    """A box over a screen, which takes all keys."""


class Palette(CommandPalette):
    """The framework's palette, which runs one command however often Enter is pressed.

    :class:`ClosesOnce` cannot be one of its bases: Textual looks for a class's parts in the first.
    """

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close, if it is on top; it has closed already where it is not."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def on_mount(self) -> None:
        """Blinking would cost frames over a slow link."""
        self.query_one(Input).cursor_blink = False

    @on(Input.Submitted)
    @on(Button.Pressed)
    @on(OptionList.OptionSelected)
    def _select_once(
        self, event: Input.Submitted | Button.Pressed | OptionList.OptionSelected
    ) -> None:
        """Leave the framework's handler out once the palette has closed."""
        if not self.is_active:
            event.stop()
            event.prevent_default()
