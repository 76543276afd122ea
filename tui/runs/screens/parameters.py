"""The editor for the parameters of a workload, and its field for a choice among values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.kit.dialogs import BesideCursor, dialog
from tui.kit.lines import Line, Span, TextStyle, fit_line, line, paragraph, width
from tui.kit.pane import LineBar, LinesView
from tui.runs.state.parameters import (
    Invalid,
    Sweep,
    Valid,
    describe_allowed,
    describe_several,
    format_value,
    make_sweep_example,
    parse_sweep,
)
from tui.runs.views.workload_table import CHANGED
from workloads.protocol.results import ParameterInfo, Setting, WorkloadInfo

VALUE_STAYS = "{} stays: clear the field, then F6 fills in a sweep"


class ChoiceField(LineBar, can_focus=True):
    """A row of values with the chosen one in brackets; shows the values around it that fit.

    The field's value is all values marked with space; without a mark, the chosen one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", show=False),
        Binding("right", "step(1)", show=False),
        Binding("space", "mark", show=False),
    ]

    class Changed(Message):
        """Another value is chosen or marked."""

    def __init__(self, values: Sequence[str], chosen: str) -> None:
        super().__init__(self._choices)
        self._values = tuple(values)
        self._marked: set[str] = set()
        self._index = 0
        self.choose(chosen)

    @property
    def value(self) -> str:
        """The chosen value, or the marked values separated by commas."""
        marked = [value for value in self._values if value in self._marked]
        return ",".join(marked) or self._values[self._index]

    def action_step(self, by: int) -> None:
        """Choose the next or the previous value, cyclically."""
        self._index = (self._index + by) % len(self._values)
        self._show()

    def action_mark(self) -> None:
        """Mark or unmark the chosen value."""
        self._marked ^= {self._values[self._index]}
        self._show()

    def choose(self, value: str) -> None:
        """Choose a value by its text, or mark several; ignore unknown values."""
        self._marked = set()
        several = list(self._values) if value == "*" else value.split(",")
        if value in self._values:
            self._index = self._values.index(value)
        elif len(several) > 1 and set(several) <= set(self._values):
            self._marked, self._index = set(several), self._values.index(several[0])
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        self.rebuild()
        self.post_message(self.Changed())

    def _choices(self, cells: int) -> Line:
        style = TextStyle.CURSOR if self.has_focus else TextStyle.STRONG
        spans: list[Span] = []
        for index, value in enumerate(self._values):
            chosen = index == self._index
            words = f"{'+' if value in self._marked else ''}{value}"
            shown = f"[{words}]" if chosen else f" {words} "
            marked = TextStyle.STRONG if value in self._marked else TextStyle.QUIET
            spans.append(Span(shown, style if chosen else marked))
        if width(tuple(spans)) <= cells:
            return tuple(spans)
        count = f"{self._index + 1} of {len(self._values)}"
        dash = glyphs.GLYPHS.dash
        return fit_line(
            (
                Span(f"[{self._values[self._index]}]", style),
                Span(f" {dash} {count}", TextStyle.QUIET),
            ),
            cells,
        )

    def watch_has_focus(self, value: bool) -> None:
        """Mark the field that has the focus."""
        super().watch_has_focus(value)
        self.rebuild()

    def on_click(self, _event: events.Click) -> None:
        """Go to the next value."""
        self.action_step(1)


Field = Input | ChoiceField


class ParametersScreen(BesideCursor[Valid | Sweep | None]):
    """One field per parameter; returns all parameters, checked, or a sweep, or ``None``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("enter", "apply", show=False),
        Binding("down,tab", "app.focus_next", show=False),
        Binding("up,shift+tab", "app.focus_previous", show=False),
        Binding("f5", "defaults", show=False),
        Binding("f6", "sweep", show=False),
    ]

    def __init__(
        self, info: WorkloadInfo, present: Mapping[str, Setting], sweep: Sweep | None = None
    ) -> None:
        super().__init__()
        self._info = info
        self._present = dict(sweep.points[0] if sweep else present)
        typed = sweep.texts if sweep else {}
        self._fields = {
            parameter.name: _make_field(
                parameter,
                typed.get(parameter.name)
                or format_value(
                    self._present.get(parameter.name, parameter.default), auto=parameter.auto
                ),
            )
            for parameter in info.parameters
        }
        self._first = {
            name: field.value for name, field in self._fields.items() if isinstance(field, Input)
        }
        """The fields' initial contents."""
        self._errors: dict[str, str] = {}
        self._note = ""
        """Why a key has not changed a field."""
        self._message = LinesView(self._message_lines, id="message")
        self._message.can_focus = False

    def compose(self) -> ComposeResult:
        """Yield a box of fields, with the allowed values below them."""
        rows = [
            Container(self._label(parameter), self._fields[parameter.name], classes="field")
            for parameter in self._info.parameters
        ]
        yield from dialog(
            f"Parameters of {clean(self._info.name)}",
            "enter apply   F5 defaults   F6 sweep   escape cancel",
            VerticalScroll(*rows, id="fields", can_focus=False),
            self._message,
        )

    def on_mount(self) -> None:
        """Focus the first field."""
        for field in self._fields.values():
            field.focus()
            break

    def _message_lines(self, cells: int) -> list[Line]:
        """Return the errors, else the meaning and allowed values of the focused parameter."""
        rows: list[Line] = [()]
        for error in self._errors.values():
            rows += paragraph(error, cells, TextStyle.BAD, indent="  ")
        if self._note:
            rows += paragraph(self._note, cells, TextStyle.NOTE, indent="  ")
        info = next(
            (item for item in self._info.parameters if self._fields[item.name].has_focus), None
        )
        if info is not None:
            words = f"{info.name}: {info.about}; {describe_allowed(info)}"
            words += f"; default {_format_default(info)}"
            rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
            rows += paragraph(self._describe_several(info), cells, TextStyle.QUIET, indent="  ")
        elif not self._fields:
            rows.append(line(Span(f"{text.count(0, 'parameter')} to edit", TextStyle.QUIET)))
        outcome = self._parse()
        if isinstance(outcome, Sweep):
            words = f"enter measures these {text.count(len(outcome.points), 'point')} now"
            rows += paragraph(words, cells, TextStyle.NOTE, indent="  ")
        if any(map(self._is_changed, self._info.parameters)):
            words = f"{CHANGED} not the default; a single value is kept for the next start"
            rows += paragraph(words, cells, TextStyle.NOTE, indent="  ")
        return rows

    def _describe_several(self, info: ParameterInfo) -> str:
        """Describe how to enter several values in the field."""
        if isinstance(self._fields[info.name], ChoiceField):
            return "left and right choose; space marks several, F6 all"
        return f"to sweep: {describe_several(info)}; empty: the default"

    def _label(self, parameter: ParameterInfo) -> LineBar:
        def words(_cells: int) -> Line:
            mark = f" {CHANGED}" if self._is_changed(parameter) else ""
            return line(Span(parameter.name, TextStyle.STRONG), Span(mark, TextStyle.NOTE))

        label = LineBar(words)
        label.add_class("label")
        return label

    def _is_changed(self, parameter: ParameterInfo) -> bool:
        default = _format_default(parameter)
        return (self._fields[parameter.name].value.strip() or default) != default

    def on_descendant_focus(self) -> None:
        """Show the allowed values of the focused field."""
        self._message.rebuild()

    @on(Input.Changed)
    @on(ChoiceField.Changed)
    def _changed(self, event: Input.Changed | ChoiceField.Changed) -> None:
        event.stop()
        # Errors in earlier values do not apply to these.
        self._errors, self._note = {}, ""
        self._message.rebuild()
        for label in self.query(".label").results(LineBar):
            label.rebuild()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_apply()

    def _parse(self) -> Valid | Sweep | Invalid:
        texts = {
            parameter.name: self._fields[parameter.name].value.strip() or _format_default(parameter)
            for parameter in self._info.parameters
        }
        return parse_sweep(self._info, texts, self._present)

    def action_apply(self) -> None:
        """Return the values, or show their errors."""
        outcome = self._parse()
        if isinstance(outcome, Invalid):
            self._errors = outcome.errors
            self._message.rebuild()
            self._fields[next(iter(outcome.errors))].focus()
        else:
            self.dismiss(outcome)

    def action_defaults(self) -> None:
        """Fill all fields with the defaults."""
        for parameter in self._info.parameters:
            field = self._fields[parameter.name]
            if isinstance(field, Input):
                field.value = _format_default(parameter)
            else:
                field.choose(_format_default(parameter))

    def action_sweep(self) -> None:
        """Fill the focused field with a range, or select all of its choices.

        Typed text stays: only fields with their first or their default value are filled.
        """
        for parameter in self._info.parameters:
            field = self._fields[parameter.name]
            if not field.has_focus:
                continue
            if isinstance(field, ChoiceField):
                field.choose("*")
            elif field.value.strip() not in self._own_values(parameter):
                self._note = VALUE_STAYS.format(field.value.strip())
                self._message.rebuild()
            elif example := make_sweep_example(parameter):
                field.value = example
                field.select_all()  # other values are typed over it

    def _own_values(self, parameter: ParameterInfo) -> tuple[str, ...]:
        """Return the values that the dialog itself has put into a field."""
        example = make_sweep_example(parameter) or ""
        return ("", _format_default(parameter), self._first[parameter.name], example)

    def action_cancel(self) -> None:
        """Close the dialog without a change."""
        self.dismiss(None)


def _format_default(parameter: ParameterInfo) -> str:
    return format_value(parameter.default, auto=parameter.auto)


def _make_field(parameter: ParameterInfo, value: str) -> Field:
    choices = parameter.choices or ((True, False) if isinstance(parameter.default, bool) else ())
    if choices:
        return ChoiceField([format_value(choice) for choice in choices], value)
    field = Input(value, select_on_focus=True)
    field.cursor_blink = False
    return field
