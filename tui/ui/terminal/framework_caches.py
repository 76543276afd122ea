"""Gives up what the framework keeps of what is gone.

It remembers what it works out of regions, thousands of each kind, most of which belong to one size
of the terminal; and one of these memories holds every widget that it was asked for, a closed dialog
or a toast with all of its lines. A day of use would cost some 20 MB.
"""

from __future__ import annotations

from typing import Any

from textual._styles_cache import StylesCache
from textual.css.scalar import Scalar
from textual.geometry import Region

FORGET_S = 30.0
"""How often; what is in use is worked out anew in a moment."""
_KEPT: tuple[Any, ...] = tuple(
    method
    for kind in (Region, Scalar, StylesCache)
    for method in vars(kind).values()
    if hasattr(method, "cache_clear")
)
"""Methods under :func:`functools.lru_cache`."""


def forget() -> None:
    """Empty what is kept."""
    for method in _KEPT:
        method.cache_clear()
