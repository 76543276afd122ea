"""The end of a run's output, as lines that can be drawn."""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from pathlib import Path

from tui.text import numbers as text
from tui.text.clean import clean

MOST_LINES = 5000
MOST_CHARACTERS = 4000
"""Of a line."""
FIRST_BYTES = 1 << 20
"""Of what was written before the first look."""
MOST_BYTES = 1 << 20
"""That are read at one look; of more, the end is."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""Colours, movements, titles: ECMA-48, 5.4 and 8.3.89."""


class Output:
    """Follows a file to which others append.

    Args:
        path: the file, which may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.problem = ""
        """Why it cannot be read; empty where it can, or is not there."""
        self._path = path
        self._place: int | None = None
        """Where reading goes on."""
        self._whole: deque[str] = deque(maxlen=MOST_LINES)
        self._rest = ""
        self._begin()

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, and what was written of the next."""
        rest = shown(self._rest)
        return (*self._whole, rest) if rest else tuple(self._whole)

    def read(self) -> bool:
        """Read what has been added; returns whether anything was."""
        try:
            with self._path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if self._place is None:
                    self._place = max(0, size - FIRST_BYTES)
                    file.seek(self._place)
                    if self._place:
                        self._skip_line(file.read(FIRST_BYTES))
                        return True
                elif size < self._place:  # somebody has emptied it
                    self._place = 0
                    self._begin()
                elif size - self._place > MOST_BYTES:
                    left_out = size - MOST_BYTES - self._place
                    self._place = size - MOST_BYTES
                    self._begin()
                    said = f"[{text.size(left_out)} more, too fast to be shown, are in the file]"
                    self._whole.append(said)
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
        self._take(data)
        return bool(data)

    def _skip_line(self, data: bytes) -> None:
        """Begin in the middle of the file, with a whole line."""
        assert self._place is not None
        self._place += len(data)
        self._take(data[data.find(b"\n") + 1 :])

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + self._decoder.decode(data)).split("\n")
        self._whole.extend(shown(line) for line in lines[-MOST_LINES:])
        # A bar of progress is one line that is written over and over.
        self._rest = rest[-2 * MOST_CHARACTERS :]


def shown(line: str) -> str:
    """What a terminal would leave of a line: what was written over is not there."""
    line = line.rstrip("\r").rpartition("\r")[2]
    line = _ESCAPE.sub("", line[: 4 * MOST_CHARACTERS]).expandtabs()
    return clean(line[:MOST_CHARACTERS])
