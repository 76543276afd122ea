"""Numbers with the units that workloads give them, and internal names, as words for people."""

from __future__ import annotations

import math

from tui.text import numbers as text
from workloads.protocol.results import Cell

RATES = {"byte/s": "B/s", "bytes/s": "B/s"}
_SECONDS = ("s", "second", "seconds")
_BYTES = ("B", "byte", "bytes")
_MOST_BYTES = 1e18
_PLAIN_BELOW = 10_000
"""From here on a number that is not whole is rounded to whole ones."""

_WORDS = {
    "time.median_s": "median",
    "time.p95_s": "p95",
    "time.ci95_s": "95% interval",
    "time.device_median_s": "device time",
    "time.enqueue_s": "enqueue time",
    "rates.flop_per_s": "FLOP/s",
    "rates.byte_per_s": "B/s",
    "rates.item_per_s": "samples/s",
    "memory.allocated_peak": "allocated peak",
    "memory.reserved_peak": "reserved peak",
    "memory.workspace": "cuBLAS workspace",
    "memory.process_peak": "process peak",
}


def quantity(value: Cell, unit: str = "") -> str:
    """A value in its unit: ``1.90 ms``, ``1.0 GiB``, ``26.0 GB/s``, ``1.43x``, ``12%``, ``n/a``.

    Args:
        value: a number in ``unit``, words, or ``None`` for what is not known.
        unit: s, byte, byte/s, FLOP/s, samples/s, x, %, another word, or none.
    """
    if value is None:
        return text.NA
    if isinstance(value, str):
        return f"{value} {unit}".strip()
    if not math.isfinite(value):
        return text.NA
    if unit in _SECONDS:
        return text.seconds(value)
    if unit in _BYTES and abs(value) >= _MOST_BYTES:
        return f"{value:.3g} B"
    if unit in _BYTES:
        return text.size(round(value))
    if unit == "x":
        return text.ratio(value)
    if unit == "%":
        return text.fine_percent(value)
    if unit.endswith("/s"):
        return text.rate(value, RATES.get(unit, unit))
    return f"{number(value)} {unit}".strip()


def number(value: float) -> str:
    """A bare number: ``4 096``, ``0.6931``, ``1.2e-06``."""
    if float(value).is_integer() and abs(value) < 1e15:
        return text.grouped(int(value))
    if _PLAIN_BELOW <= abs(value) < 1e15:
        return text.grouped(round(value))
    return f"{value:.4g}"


def place(value: float) -> str:
    """A place on an axis, short and as it is typed: ``4096``, ``0.5``."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def label(name: str, unit: str = "") -> str:
    """A figure's name as words; the unit that it may end in is told by its value.

    ``too_fast`` becomes "too fast", ``naive_s`` "naive", ``naive_flop_per_s`` "naive rate".
    """
    stem = name
    if unit in _SECONDS:
        stem = name.removesuffix("_s")
    elif unit in _BYTES:
        stem = name.removesuffix("_bytes").removesuffix("_byte")
    elif unit.endswith("/s"):
        for ending in ("_flop_per_s", "_byte_per_s", "_bytes_per_s", "_item_per_s", "_per_s"):
            if name.endswith(ending):
                stem = f"{name.removesuffix(ending)}_rate"
                break
    return stem.replace("_", " ").strip() or name


def absent_words(path: str) -> str:
    """A dotted path of ``unavailable`` as words: ``time.p95_s`` is "p95"."""
    if path in _WORDS:
        return _WORDS[path]
    return label(path.rpartition(".")[2], "s").replace(" per s", "/s")
