"""The borders between columns of panes, in percent of the screen's width. Pure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Literal

BorderName = Literal["middle", "left", "right"]

STEP = 2
"""Percent by which a key moves a border."""
LEAST = 15
"""Least width of a column in percent."""


@dataclass(frozen=True, slots=True)
class Borders:
    """The border of the two-column layout, and the two of the three-column layout.

    Each is the percentage of the width to the left of it.
    """

    middle: int = 50
    left: int = 22
    right: int = 74

    def __post_init__(self) -> None:
        """Reject columns that are too narrow.

        Raises:
            ValueError: a column has less than :data:`LEAST` percent.
        """
        if not LEAST <= self.middle <= 100 - LEAST:
            raise ValueError(f"{self.middle}% leaves a column less than {LEAST}%")
        edges = (0, self.left, self.right, 100)
        if any(after - before < LEAST for before, after in itertools.pairwise(edges)):
            raise ValueError(f"{self.left} and {self.right}% leave a column less than {LEAST}%")

    def moved_middle(self, to: int) -> Borders:
        """Return the borders with the middle one as near to a position as possible."""
        return replace(self, middle=min(max(to, LEAST), 100 - LEAST))

    def moved_left(self, to: int) -> Borders:
        """Return the borders with the left one of three as near to a position as possible."""
        return replace(self, left=min(max(to, LEAST), self.right - LEAST))

    def moved_right(self, to: int) -> Borders:
        """Return the borders with the right one of three as near to a position as possible."""
        return replace(self, right=min(max(to, self.left + LEAST), 100 - LEAST))

    def moved(self, border: BorderName, to: int) -> Borders:
        """Return the borders with one of them as near to a position as possible."""
        move = {"middle": self.moved_middle, "left": self.moved_left, "right": self.moved_right}
        return move[border](to)

    def __str__(self) -> str:
        """Return the text that :func:`parse_borders` reads."""
        return f"{self.middle} {self.left} {self.right}"


def parse_borders(numbers: str) -> Borders:
    """Return the borders from three numbers.

    Args:
        numbers: as in the settings file, such as ``50 22 74``.

    Raises:
        ValueError: not three whole numbers, or a column would be too narrow.
    """
    middle, left, right = (int(word) for word in numbers.split())
    return Borders(middle, left, right)
