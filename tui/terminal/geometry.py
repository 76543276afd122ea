"""Gives up the geometry of the sizes that the terminal had.

The framework keeps what it works out of regions, thousands of each kind, and most of them belong to
one size of the terminal: a window that is often resized would cost some 10 MB.
"""

from __future__ import annotations

from typing import Any

from textual.css.scalar import Scalar
from textual.geometry import Region

_KEPT: tuple[Any, ...] = tuple(
    method
    for kind in (Region, Scalar)
    for method in vars(kind).values()
    if hasattr(method, "cache_clear")
)
"""Methods under :func:`functools.lru_cache`."""


def forget() -> None:
    """Empty what is kept; it fills again with what is in use."""
    for method in _KEPT:
        method.cache_clear()


def kept() -> int:
    """How many results are kept."""
    return sum(method.cache_info().currsize for method in _KEPT)
