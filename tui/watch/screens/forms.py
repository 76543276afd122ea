"""Forms of the watch tab: a command to run under the watch, and a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from tui.kit.dialogs import Dialog, dialog
from tui.kit.lines import Line, Span, TextStyle, line, paragraph
from tui.kit.pane import LineBar, LinesView
from tui.watch.session.command_start import CommandError, split_command
from tui.watch.session.rehearsal_start import RehearsalError, RehearsalRequest

A = TypeVar("A")
_NAMES = {"gpus": "GPUs"}
"""Labels that are not the field's name with a capital."""


class FormScreen(Dialog[A | None]):
    """A dialog of text fields with the meaning of the focused one; returns ``None`` on escape.

    Args:
        first: initial contents of the fields, by name; the first field has the focus.
        about: meaning of each field, by name.
    """

    CSS_PATH = "watch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]
    HEADING: ClassVar[str]
    KEYS: ClassVar[str]

    def __init__(self, first: Mapping[str, str], about: Mapping[str, str]) -> None:
        super().__init__()
        self._about = about
        self._inputs = {
            name: Input(value, id=name, select_on_focus=True) for name, value in first.items()
        }
        for field in self._inputs.values():
            field.cursor_blink = False
        self._error = ""
        self._message = LinesView(self._message_lines, id="message")

    def parse(self, values: dict[str, str]) -> A:
        """Return the answer that the fields make.

        Raises:
            CommandError: they make none; the text says why.
            RehearsalError: the same, of a rehearsal.
        """
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield the fields, and below them the meaning of the focused one."""
        rows = [Horizontal(_label(name), field) for name, field in self._inputs.items()]
        yield from dialog(self.HEADING, self.KEYS, *rows, self._message)

    def on_mount(self) -> None:
        """Begin with the first field."""
        next(iter(self._inputs.values())).focus()

    def _message_lines(self, cells: int) -> list[Line]:
        names = list(self._inputs)
        focused = next((name for name in names if self._inputs[name].has_focus), names[0])
        rows = paragraph(self._error, cells, TextStyle.BAD, indent="  ") if self._error else []
        return [(), *rows, *paragraph(self._about[focused], cells, TextStyle.QUIET, indent="  ")]

    def on_descendant_focus(self) -> None:
        """Show the meaning of the focused field."""
        self._message.rebuild()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            answer = self.parse({name: field.value for name, field in self._inputs.items()})
        except (CommandError, RehearsalError) as error:
            self._error = str(error)
            self._message.rebuild()
            return
        self.dismiss(answer)

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class RunCommandScreen(FormScreen[str]):
    """The form for a command to run under the watch; returns it as typed.

    Args:
        first: initial contents of the field.
    """

    HEADING = "Run under the watch"
    KEYS = "enter run   escape cancel"

    def __init__(self, first: str) -> None:
        try:
            folder = str(Path.cwd())
        except OSError:
            folder = "a folder that is gone"
        about = (
            "The program as you start it in a shell, such as python train.py --batch 64. It stays "
            f"unchanged, runs in {folder}, and continues when the workbench ends."
        )
        super().__init__({"command": first}, {"command": about})

    def parse(self, values: dict[str, str]) -> str:
        """Return the command as typed, once it can be split into words."""
        split_command(values["command"])
        return values["command"]


class RehearseScreen(FormScreen[RehearsalRequest]):
    """The form for a rehearsal; returns the request.

    Args:
        first: initial contents of the fields.
    """

    HEADING = "Rehearse"
    KEYS = "enter start   tab next   escape cancel"
    ABOUT: ClassVar[dict[str, str]] = {
        "command": "The program as you start it, with a Python whose torch is a CUDA build: no GPU "
        "is needed, kernels compute nothing, and it ends after the steps.",
        "card": "A card such as h100, a100-80, l4 or 4090, or the memory of one, such as 24G.",
        "gpus": "Number of such cards in the machine, for torchrun --nproc-per-node.",
        "steps": "Optimizer steps after which each process is ended; 0 runs to the program's end.",
    }
    """Meaning of each field of a request."""

    def __init__(self, first: RehearsalRequest) -> None:
        super().__init__(asdict(first), self.ABOUT)

    def parse(self, values: dict[str, str]) -> RehearsalRequest:
        """Return the request, once it has a command and a card."""
        request = RehearsalRequest(**values)
        request.arguments()
        return request


def _label(name: str) -> LineBar:
    words = _NAMES.get(name, name.capitalize())
    label = LineBar(lambda _cells: line(Span(words, TextStyle.STRONG)))
    label.add_class("label")
    return label
