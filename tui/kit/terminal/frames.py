"""Reduce the frames of Textual to what differs from the terminal's screen. No Textual here.

Textual draws each line of a widget from its left edge to the last cell that has changed, and names
all of a style, both colors, before each piece of text. Of eight rows of GPUs that would be four
times as much as the cells and colors that differ. So the cells that the terminal shows are
remembered; unchanged ones are skipped, and of a style only the difference from the present one is
written.

What is not understood is passed on as it is, and everything remembered is forgotten: cells that are
not known are drawn. So is a frame of the whole screen, which also repairs what other programs have
written onto the terminal.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<style>[\d;]*)m"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<line>\n)"
    r"|(?P<unknown>.)",
    re.DOTALL,
)
SYNCHRONIZED = frozenset({"\x1b[?2026h", "\x1b[?2026l"})
"""What Textual writes before and after a frame where the terminal can wait for all of it."""
WHOLE_ROWS = 8
"""The fewest rows of a frame of the whole screen."""
LONGEST_GAP = 4
"""The most unchanged cells that may be shorter to write again than to skip."""
_DRAWN_ON_BLANKS = frozenset({"4", "7", "9", "21", "51", "52", "53"})
"""Attributes that show where there is no letter: lines, reversed colors, frames."""
_ENDS = {
    "1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28",
    "9": "29", "21": "24", "51": "54", "52": "54", "53": "55",
}  # fmt: skip
"""By the number that begins an attribute, the one that ends it (ECMA-48; 53 and 55 are xterm's)."""


class Pen(NamedTuple):
    """The style that a terminal writes in."""

    attributes: frozenset[str] = frozenset()
    color: str = ""
    """Parameters of the escape sequence; empty for the terminal's own color."""
    background: str = ""


PLAIN = Pen()


class _Run(NamedTuple):
    """A piece of text of one style."""

    row: int
    column: int
    """Both from 1."""
    pen: Pen
    text: str


class _Row:
    """The cells of a row as far as they are known; an unknown one is an empty text."""

    __slots__ = ("pens", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.pens: list[Pen] = []

    def put(self, run: _Run) -> list[int]:
        """Write a run; return the columns of the cells that differ, from 0."""
        start = run.column - 1
        end = start + len(run.text)
        missing = end - len(self.texts)
        if missing > 0:
            self.texts += [""] * missing
            self.pens += [PLAIN] * missing
        texts = list(run.text)
        pens = [run.pen] * len(texts)
        blank = blank_pen(run.pen)
        if blank is not run.pen and " " in run.text:
            pens = [blank if text == " " else run.pen for text in texts]
        old_texts, old_pens = self.texts[start:end], self.pens[start:end]
        if old_texts == texts and old_pens == pens:
            return []
        self.texts[start:end], self.pens[start:end] = texts, pens
        return [
            start + at
            for at, text in enumerate(texts)
            if text != old_texts[at] or pens[at] != old_pens[at]
        ]


class FrameReducer:
    """Reduces the frames of one terminal; remembers what they have drawn."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._single: set[str] = set()
        """Characters that take one cell each."""

    def forget(self) -> None:
        """Draw all cells of the next frames: the terminal may show something else."""
        self._rows.clear()

    def reduce(self, frame: str) -> str:
        """Return a sequence that leaves the terminal as the frame would.

        Args:
            frame: what is to be written, from one frame or between two.
        """
        if frame in SYNCHRONIZED:
            return frame
        found = _parse(frame)
        if found is None:
            self.forget()
            return frame
        runs, end = found
        writer = _FrameWriter()
        if _is_whole(runs):
            self.forget()
            for run in runs:
                writer.write_run(run)
        else:
            self._write_changes(runs, writer)
        return writer.finish(end)

    def _write_changes(self, runs: Sequence[_Run], writer: _FrameWriter) -> None:
        changed: dict[int, set[int]] = {}
        wide = {run.row for run in runs if not self._has_single_cells(run.text)}
        for number in wide:
            # Which columns the characters end up in is the terminal's decision.
            self._rows.pop(number, None)
        for run in runs:
            if run.row in wide:
                writer.write_run(run, is_single=False)
                continue
            row = self._rows.setdefault(run.row, _Row())
            differing = row.put(run)
            if differing:
                changed.setdefault(run.row, set()).update(differing)
        for number in sorted(changed):
            writer.write_cells(number, self._rows[number], sorted(changed[number]))

    def _has_single_cells(self, text: str) -> bool:
        if text.isascii():
            return True
        unseen = set(text) - self._single
        single = {each for each in unseen if cell_len(each) == 1}
        self._single |= single
        return len(single) == len(unseen)


class _FrameWriter:
    """Collects a sequence; knows the terminal's cursor and style."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at: tuple[int, int] | None = None
        """Row and column of the cursor, from 1; ``None`` if unknown."""
        self._pen = PLAIN

    def write_run(self, run: _Run, *, is_single: bool = True) -> None:
        """Write all of a run.

        Args:
            run: the piece of text.
            is_single: each of its characters takes one cell.
        """
        self._move(run.row, run.column)
        self._set_pen(run.pen)
        self._parts.append(run.text)
        self._at = (run.row, run.column + len(run.text)) if is_single else None

    def write_cells(self, number: int, row: _Row, columns: Sequence[int]) -> None:
        """Write some cells of a row.

        Args:
            number: of the row, from 1.
            row: its cells.
            columns: from 0, ascending.
        """
        last = None
        for at in columns:
            if last is not None and at > last + 1:
                self._skip(row, last + 1, at)
            elif last is None:
                self._move(number, at + 1)
            self._put(row, at)
            last = at
        if last is not None:
            self._at = (number, last + 2)

    def finish(self, end: tuple[int, int] | None) -> str:
        """Return the sequence, which ends plain and with the cursor where the frame leaves it."""
        if not self._parts and end is None:
            return ""
        self._set_pen(PLAIN)
        if end is not None:
            self._move(*end)
        return "".join(self._parts)

    def _put(self, row: _Row, at: int) -> None:
        text, pen = row.texts[at], row.pens[at]
        if text != " " or blank_pen(self._pen) != pen:
            self._set_pen(pen)
        self._parts.append(text)

    def _skip(self, row: _Row, start: int, end: int) -> None:
        """Pass over cells that have not changed, or write them again where that is shorter."""
        count = end - start
        sequence = "\x1b[C" if count == 1 else f"\x1b[{count}C"
        if count <= LONGEST_GAP and "" not in row.texts[start:end]:
            between = "".join(row.texts[start:end])
            alike = all(
                pen == self._pen or (text == " " and pen == blank_pen(self._pen))
                for text, pen in zip(row.texts[start:end], row.pens[start:end], strict=True)
            )
            if alike and len(between.encode()) <= len(sequence):
                sequence = between
        self._parts.append(sequence)

    def _move(self, row: int, column: int) -> None:
        if self._at != (row, column):
            self._parts.append(f"\x1b[{row};{column}H")
            self._at = (row, column)

    def _set_pen(self, pen: Pen) -> None:
        if pen != self._pen:
            self._parts.append(change_pen(self._pen, pen))
            self._pen = pen


def _parse(frame: str) -> tuple[list[_Run], tuple[int, int] | None] | None:
    """Return a frame's runs and where it leaves the cursor; ``None`` if it cannot be understood.

    The place of the cursor is ``None`` if the frame does not end by placing it.
    """
    runs: list[_Run] = []
    row = column = 0
    """Of the cursor, from 1; 0 while unknown."""
    pen = PLAIN
    end = None
    for token in _TOKEN.finditer(frame):
        kind = token.lastgroup
        if kind == "text":
            if not row:
                return None
            text = token["text"]
            runs.append(_Run(row, column, pen, text))
            column += len(text) if text.isascii() else cell_len(text)
            end = None
        elif kind == "style":
            styled = parse_pen(token["style"])
            if styled is None:
                return None
            pen = styled
        elif kind == "column":
            row, column = int(token["row"]), int(token["column"])
            end = (row, column)
        elif kind == "line":
            # Textual places the cursor after each of these.
            row = column = 0
        else:
            return None
    return runs, end


def _is_whole(runs: Sequence[_Run]) -> bool:
    """Return whether runs draw the screen from its first row on, each row from its first cell."""
    starts: dict[int, int] = {}
    for run in runs:
        starts.setdefault(run.row, run.column)
    rows = list(starts)
    return (
        len(rows) >= WHOLE_ROWS
        and rows == list(range(1, len(rows) + 1))
        and set(starts.values()) == {1}
    )


@functools.lru_cache(maxsize=1024)
def parse_pen(parameters: str) -> Pen | None:
    """Return the style that the parameters of an escape sequence set after plain text.

    Args:
        parameters: numbers with semicolons between them, as Rich writes them; empty for plain text.

    Returns:
        The style, or ``None`` if a number has an unknown meaning.
    """
    attributes = set()
    color = background = ""
    numbers = [each for each in parameters.split(";") if each not in ("", "0")]
    while numbers:
        number = numbers.pop(0)
        if number in _ENDS:
            attributes.add(number)
        elif number in ("38", "48"):
            count = {"5": 2, "2": 4}.get(numbers[0] if numbers else "", 0)
            if not count or len(numbers) < count:
                return None
            whole = ";".join([number, *numbers[:count]])
            del numbers[:count]
            color, background = (whole, background) if number == "38" else (color, whole)
        elif number == "39":
            color = ""
        elif number == "49":
            background = ""
        elif len(number) == 2 and number[0] in "39" and number[1] in "01234567":
            color = number
        elif number[:-1] in ("4", "10") and number[-1] in "01234567":
            background = number
        else:
            return None
    return Pen(frozenset(attributes), color, background)


@functools.lru_cache(maxsize=1024)
def blank_pen(pen: Pen) -> Pen:
    """Return the part of a style that shows on a blank."""
    if pen.attributes & _DRAWN_ON_BLANKS or not (pen.attributes or pen.color):
        return pen
    return Pen(background=pen.background)


@functools.lru_cache(maxsize=4096)
def change_pen(old: Pen, new: Pen) -> str:
    """Return the shortest sequence that changes the terminal's style from one to another."""
    started = sorted(new.attributes - old.attributes)
    ended = {_ENDS[each] for each in old.attributes - new.attributes}
    # What ends one attribute ends its neighbors too, as 22 does both bold and dim.
    again = [each for each in sorted(new.attributes & old.attributes) if _ENDS[each] in ended]
    parts = [*sorted(ended), *again, *started]
    if new.color != old.color:
        parts.append(new.color or "39")
    if new.background != old.background:
        parts.append(new.background or "49")
    afresh = [*sorted(new.attributes), new.color, new.background]
    whole = ";".join(["", *filter(None, afresh)]) if new != PLAIN else ""
    return f"\x1b[{min(';'.join(parts), whole, key=len)}m"
