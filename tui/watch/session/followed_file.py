"""A file that other programs append to, as a terminal would show its lines."""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from pathlib import Path

from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.watch.runs.untrusted import open_regular

MOST_LINES = 5000
"""Newest output lines that are stored."""
MOST_CHARACTERS = 4000
"""Most characters stored of one line."""
FIRST_BYTES = 1 << 20
"""Bytes of existing output that the first reading covers."""
MOST_BYTES = 1 << 20
"""Most bytes read at a time; of more, only the end is read."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""Colors, cursor movements and titles: ECMA-48, 5.4 and 8.3.89."""


class FollowedFile:
    """Follows a file that other programs append to.

    Args:
        path: the file, which may not exist yet.
        first_bytes: bytes of existing output that the first reading covers.
    """

    def __init__(self, path: Path, first_bytes: int = FIRST_BYTES) -> None:
        self.problem = ""
        """Why the file cannot be read; empty if it can be read or does not exist."""
        self._path = path
        self._first_bytes = first_bytes
        self._place: int | None = None
        """Offset at which the next reading starts."""
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._unfinished = ""
        self._begin()

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The newest lines, with the unfinished next line at the end."""
        rest = render_line(self._unfinished)
        return (*self._lines, rest) if rest else tuple(self._lines)

    def read(self) -> bool:
        """Read the appended lines; return whether there were any."""
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                if self._place is None:
                    self._place = max(0, size - self._first_bytes)
                    file.seek(self._place)
                    if self._place:
                        self._skip_line(file.read(self._first_bytes))
                        return True
                elif size < self._place:  # the file was truncated
                    self._place = 0
                    self._begin()
                elif size - self._place > MOST_BYTES:
                    left_out = size - MOST_BYTES - self._place
                    self._place = size - MOST_BYTES
                    self._begin()
                    notice = f"[{text.size(left_out)} more, too fast to be shown, are in the file]"
                    self._lines.append(notice)
                file.seek(self._place)
                data = file.read(MOST_BYTES)
        except FileNotFoundError:
            return False
        except OSError as error:
            changed = not self.problem
            self.problem = f"its output cannot be read: {error.strerror}"
            return changed
        self.problem = ""
        self._place += len(data)
        self._append(data)
        return bool(data)

    def _skip_line(self, data: bytes) -> None:
        """Skip to the first whole line after starting in the middle of the file."""
        assert self._place is not None
        self._place += len(data)
        self._append(data[data.find(b"\n") + 1 :])

    def _append(self, data: bytes) -> None:
        *lines, rest = (self._unfinished + self._decoder.decode(data)).split("\n")
        self._lines.extend(render_line(line) for line in lines[-MOST_LINES:])
        # A progress bar is one line that is overwritten again and again.
        self._unfinished = rest[-2 * MOST_CHARACTERS :]


def render_line(line: str) -> str:
    """Return a line as a terminal would show it, without overwritten text."""
    line = line.rstrip("\r").rpartition("\r")[2]
    line = _ESCAPE.sub("", line[: 4 * MOST_CHARACTERS]).expandtabs()
    return clean(line[:MOST_CHARACTERS])
