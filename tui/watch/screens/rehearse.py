"""The dialog that starts a rehearsal: a command on simulated cards."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from tui.kit.dialogs import Dialog, box
from tui.kit.lines import Line, Span, TextStyle, line, paragraph
from tui.kit.pane import LineBar, LinesView
from tui.watch.session.rehearsal_start import RehearsalError, RehearsalRequest

ABOUT = {
    "command": "The program as you start it, with a Python whose torch is a CUDA build: no GPU is "
    "needed, kernels compute nothing, and it ends after the steps.",
    "card": "A card such as h100, a100-80, l4 or 4090, or the memory of one, such as 24G.",
    "gpus": "Number of such cards in the machine, for torchrun --nproc-per-node.",
    "steps": "Optimizer steps after which each process is ended; 0 runs to the program's end.",
}
"""Meaning of each field, by its name in :class:`RehearsalRequest`."""
_NAMES = {"gpus": "GPUs"}


class RehearseScreen(Dialog["RehearsalRequest | None"]):
    """The dialog for a rehearsal; returns the request, or ``None``.

    Args:
        first: initial contents of the fields.
    """

    CSS_PATH = "watch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, first: RehearsalRequest) -> None:
        super().__init__()
        self._inputs = {
            field.name: Input(getattr(first, field.name), id=field.name, select_on_focus=True)
            for field in fields(RehearsalRequest)
        }
        for field in self._inputs.values():
            field.cursor_blink = False
        self._error = ""
        self._message = LinesView(self._message_lines, id="message")

    def compose(self) -> ComposeResult:
        """Yield the fields, and below them the meaning of the focused one."""
        rows = [Horizontal(_label(name), field) for name, field in self._inputs.items()]
        yield box("Rehearse", "enter starts   tab next   escape cancels", *rows, self._message)

    def on_mount(self) -> None:
        """Begin with the command."""
        self._inputs["command"].focus()

    def _message_lines(self, cells: int) -> list[Line]:
        focused = next((name for name, field in self._inputs.items() if field.has_focus), "command")
        rows = paragraph(self._error, cells, TextStyle.BAD, indent="  ") if self._error else []
        return [(), *rows, *paragraph(ABOUT[focused], cells, TextStyle.QUIET, indent="  ")]

    def on_descendant_focus(self) -> None:
        """Show the meaning of the focused field."""
        self._message.rebuild()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        request = RehearsalRequest(**{name: field.value for name, field in self._inputs.items()})
        try:
            request.arguments()
        except RehearsalError as error:
            self._error = str(error)
            self._message.rebuild()
            return
        self.dismiss(request)

    def action_cancel(self) -> None:
        """Start nothing."""
        self.dismiss(None)


def _label(name: str) -> LineBar:
    words = _NAMES.get(name, name.capitalize())
    label = LineBar(lambda _cells: line(Span(words, TextStyle.STRONG)))
    label.add_class("label")
    return label
