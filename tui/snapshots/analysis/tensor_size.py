"""The shape of a tensor that the size of one large request suggests.

A tensor over all pairs of N things has N x N elements, and few other sizes are a square times the
size of an element: for a request of 1 GiB, one in 250 would be one by chance.
"""

from __future__ import annotations

from math import isqrt

from tui.snapshots.analysis.allocations import round_up
from tui.text.numbers import grouped

SMALLEST = 64 << 20
"""Bytes below which too many sizes are a square times the size of an element."""
_TYPES = (
    (4, "float32"),
    (2, "float16 or bfloat16"),
    (8, "float64 or int64"),
    (1, "bool or int8"),
)
"""Bytes of an element and what has so many, the likelier first."""


def squares(size: int) -> tuple[tuple[int, str], ...]:
    """The square tensors that take a size: their rows and what their elements are.

    Args:
        size: bytes, as the allocator rounds them up to 512.

    Returns:
        The likelier first; a square of a wider type is another one of a narrower, with twice the
        rows, of which only one is named for the 4 bytes of float32.
    """
    if size < SMALLEST:
        return ()
    found = []
    for item, name in _TYPES:
        rows = isqrt(size // item)
        if round_up(item * rows * rows) == size:
            found.append((rows, name))
    return tuple(found[:1] if found and found[0][1] == "float32" else found)


def shape_words(size: int) -> str:
    """What such a size is, to stand behind ``500 GiB is``; never empty.

    ``as much as 500 000 x 500 000 elements of float32 take``, where it is a square.
    """
    found = squares(size)
    if found:
        shapes = (f"{grouped(rows)} x {grouped(rows)} elements of {name}" for rows, name in found)
        return f"as much as {', or '.join(shapes)} take"
    count = size // 4
    return (
        f"as much as {grouped(count)} elements of float32 take: those of a square of about"
        f" {_about(isqrt(count))} x {_about(isqrt(count))}"
    )


def _about(value: int) -> str:
    """Three digits of a number."""
    step = 10 ** max(0, len(str(value)) - 3)
    return grouped((value + step // 2) // step * step)
