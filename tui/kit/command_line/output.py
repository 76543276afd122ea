"""All output besides the screens, cleaned: lines, JSON, progress and error messages.

Everything that a screen does not draw is printed through this module. A plain start imports it, so
it imports little itself.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO, cast

from tui.core import reports
from tui.core.text import glyphs
from tui.core.text.glyphs import rows_of_text
from workloads.protocol import wire

WIDTH = 100
"""Cells of a line in a file or a pipe."""


class UsageError(Exception):
    """Arguments that cannot be carried out: one line with what, why and what to do."""


class Failure(Exception):  # noqa: N818 (it ends a command with exit code 1)
    """A failure that keeps a command from doing its work.

    Args:
        message: one line for stderr.
        code: the exit code.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class OutputClosedError(Exception):
    """The reader of the output has gone, as with ``| head``: the program ends without a message."""


PROGRAM = "gpu-workbench"
IMPORTABLE = "run.json"
"""File name of results that could not be printed; ``results import`` reads such a file."""


def prepare() -> None:
    """Replace closed standard streams, and spell out characters that a stream cannot encode.

    The next file or pipe would get the descriptor of a closed stream, and receive the output. Input
    is replaced by an empty stream, output by one that rejects writes, and standard error by one
    that drops them.
    """
    # In this order: each replacement gets the lowest free descriptor, which is the missing one.
    if sys.stdin is None:
        sys.stdin = _open_nowhere(os.O_RDONLY, "r")
    if sys.stdout is None:
        # Read-only: a write fails, as on a closed descriptor.
        sys.stdout = _open_nowhere(os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _open_nowhere(os.O_WRONLY, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=glyphs.SPELLED_OUT)


def print_text(text: str, file_suffix: str = "") -> None:
    """Print lines on standard output.

    Args:
        text: cleaned line by line.
        file_suffix: the end of a file's name, such as ``run.json``: text that cannot be printed
            is saved under it. Empty for text that the command can produce again.

    Raises:
        Failure: it cannot be written; the message says where it is saved.
        OutputClosedError: the reader has gone, and the command can produce the text again.
    """
    print_clean(_cleaned(text), file_suffix)


def print_clean(text: str, file_suffix: str = "") -> None:
    """Print text that is clean already: texts from others in it are, its own colors need not be.

    The arguments and errors are those of :func:`print_text`.
    """
    error = _put_on_stdout(text)
    if error is not None:
        _give_up(text, error, file_suffix)


def _give_up(text: str, error: OSError, file_suffix: str) -> NoReturn:
    """Raise what ends the command; with a file's name, save the text first."""
    if file_suffix:
        raise Failure(f"{_cannot(error)}; {_save_unprinted(text, file_suffix)}") from error
    if isinstance(error, BrokenPipeError):
        raise OutputClosedError from error
    raise Failure(_cannot(error)) from error


class Rows:
    """Print lines as they arise; if one cannot be printed, save all of them at the end.

    Args:
        file_suffix: the end of the file's name, such as ``run.txt``. Empty for lines without end,
            which are not kept.
    """

    def __init__(self, file_suffix: str) -> None:
        self._file_suffix = file_suffix
        self._text = ""
        self._error: OSError | None = None

    @property
    def reader_gone(self) -> bool:
        """True once the reader has closed the pipe, as ``| head`` does."""
        return isinstance(self._error, BrokenPipeError)

    @property
    def failed(self) -> bool:
        """True once a line could not be printed; no further one is."""
        return self._error is not None

    def add(self, text: str) -> None:
        """Clean and print more lines."""
        text = _cleaned(text)
        if self._file_suffix:
            self._text += text
        if self._error is None:
            self._error = _put_on_stdout(text)

    def end(self) -> None:
        """End the output.

        Raises:
            Failure: lines could not be written; the message names the file with all of them, if
                they were kept.
            OutputClosedError: the reader has gone, and nothing was kept.
        """
        if self._error is not None:
            _give_up(self._text, self._error, self._file_suffix)


def _cleaned(text: str) -> str:
    return rows_of_text(text.removesuffix("\n").split("\n")) if text else ""


def _put_on_stdout(text: str) -> OSError | None:
    """Write to stdout; returns the error if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _abandon(sys.stdout)
        return error
    return None


def print_line(text: str) -> None:
    """Print one line, with control characters made visible; raises as :func:`print_text` does."""
    print_text(rows_of_text([text]))


def print_notice(text: str) -> None:
    """Print one line on standard error, starting with the program's name.

    If it cannot be written, only the exit code remains.
    """
    put_on_stderr(rows_of_text([f"{PROGRAM}: {text}"]))


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on a terminal; without one, return ``True`` without asking."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    put_on_stderr(f"{rows_of_text([question]).rstrip()} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def put_on_stderr(text: str) -> None:
    """Write text to standard error as it is; text from others must be cleaned first."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)


def _open_nowhere(flags: int, mode: str) -> TextIO:
    # `fdopen` is typed for every mode; this one gives text.
    return cast(TextIO, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def _abandon(stream: TextIO) -> None:
    """Discard the unwritten text of a stream, which Python would otherwise write again at exit."""
    with contextlib.suppress(OSError):  # no descriptor behind it, or none left for this one
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _cannot(error: OSError) -> str:
    return f"standard output cannot be written: {error.strerror or error}"


def _save_unprinted(text: str, name: str) -> str:
    """Save text that cannot be printed; return a sentence that says where."""
    try:
        path = reports.save_unprinted(name, text)
    except OSError as error:
        put_on_stderr(text)
        return f"nor saved: {error.strerror or error}; it is on standard error"
    hint = f"; {PROGRAM} results import imports it" if name == IMPORTABLE else ""
    return f"the output is saved in {path}{hint}"


SCHEMA = 1


def print_json(value: dict[str, Any], file_suffix: str = "") -> None:
    """Print one object, with the schema's number first.

    Args:
        value: plain data, or records.
        file_suffix: as in :func:`print_text`, without ``.json``.
    """
    text = json.dumps({"schema": SCHEMA, **wire.to_plain(value)}, allow_nan=False, indent=2)
    print_text(text, file_suffix and f"{file_suffix}.json")


def describe_os_error(error: OSError) -> str:
    """Return why a named file cannot be read, to follow its name: ``does not exist``."""
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return error.strerror or str(error)


FEW = 12
"""Most names to list in one line of an error."""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name most similar to a typed one; ``None`` if none is similar.

    A name is similar if the typed text begins it, is part of it, or has a few wrong letters.
    """
    typed = name.lower()
    begins = [name for name in known if len(typed) > 1 and name.lower().startswith(typed)]
    close = difflib.get_close_matches(typed, known, n=1)
    parts = [name for name in known if len(typed) > 2 and typed in name.lower()]
    return next(iter([*begins, *close, *parts]), None)


def not_known(kind: str, name: str, known: Sequence[str], where: str = "") -> str:
    """Describe an unknown name in a line: suggest the most similar name, or list the known ones.

    Args:
        kind: what the name stands for, such as a workload.
        name: as typed.
        known: the known names.
        where: where to find the whole list, if a line has no room for it.
    """
    meant = nearest(name, known)
    if meant is not None:
        return f"no {kind} {name} (did you mean {meant}?)"
    if len(known) > FEW and where:
        return f"no {kind} {name}: {where} shows all"
    return f"no {kind} {name}: one of {', '.join(known)}"


def flags_in(text: str) -> list[str]:
    """Return the long options that a help names."""
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)))


_GAP = re.compile(r" {2,}(?=\S)")
"""The blanks between two columns of a row."""


def wrap_rows(text: str, cells: int) -> str:
    """Wrap long rows between their columns, and indent the continuation to its column.

    Args:
        text: rows; rows that fit and words longer than a line stay unchanged. A column's text is
            broken only where it is longer than a line.
        cells: width of the terminal.
    """
    return "\n".join(wrapped for row in text.split("\n") for wrapped in _wrap(row, cells))


def _wrap(row: str, cells: int) -> list[str]:
    if len(row) <= cells:
        return [row]
    lead = len(row) - len(row.lstrip())
    # Below the last column that begins in the left half; a row without columns is indented.
    starts = [gap.end() for gap in _GAP.finditer(row) if lead < gap.end() <= cells // 2]
    indent = " " * (starts[-1] if starts else min(lead + 2, cells // 2))
    lines: list[str] = []
    current, end = row[:lead], lead
    for gap in [*_GAP.finditer(row, lead), None]:
        column = row[end : gap.start() if gap else len(row)].rstrip()
        if len(current) + len(column) <= cells:
            current += column
        elif current.strip() and len(indent) + len(column) <= cells:
            lines.append(current)
            current = indent + column
        else:
            *broken, current = _break(column, current, indent, cells)
            lines += broken
        if gap:
            current += gap[0]
            end = gap.end()
    return [line.rstrip() for line in [*lines, current]]


def _break(column: str, before: str, indent: str, cells: int) -> list[str]:
    """Break a column's text at blanks; its first words follow the row's begin, if one fits."""
    first = column.partition(" ")[0]
    whole = [before] if before.strip() and len(before) + len(first) > cells else []
    wrapped = textwrap.wrap(
        column,
        cells,
        initial_indent=indent if whole else before,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    return [*whole, *wrapped] or [before]


def fit_to_terminal(text: str) -> str:
    """Return rows for standard output: wrapped on a terminal, whole in a file."""
    return wrap_rows(text, width()) if sys.stdout.isatty() else text


def width() -> int:
    """Return the cells of a line: the terminal's width, or a fixed number without one."""
    return terminal_width() or WIDTH


NARROWEST_TEXT, WIDEST_TEXT = 60, 120
"""Least and most cells of a line of wrapped sentences."""


def text_width() -> int:
    """Return the cells of a line of wrapped sentences: the terminal's width, within limits."""
    return max(NARROWEST_TEXT, min(WIDEST_TEXT, shutil.get_terminal_size((80, 24)).columns))


def terminal_width() -> int | None:
    """Return the width of the terminal in cells; ``None`` if the output is no terminal."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else None
