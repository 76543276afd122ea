"""Shorten torch's text of an OOM to the sizes that matter. Pure."""

from __future__ import annotations

import re

from tui.core.text import numbers as text
from workloads.protocol.results import OUT_OF_MEMORY

_SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB)"
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_ASKED = re.compile(rf"Tried to allocate {_SIZE}")
_ALLOWED = re.compile(rf"{_SIZE} allowed;")
_ALLOCATED = re.compile(rf"{_SIZE} is allocated by PyTorch")
_CACHED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_FREE = re.compile(rf"total capacity of {_SIZE} of which {_SIZE} is free")


def shorten_oom(reason: str) -> str:
    """Return the reason of a run's end; of torch's OOM, the request and the room in one line.

    ``out of memory: asked for 16.0 MiB; 6.0 of 6.0 GiB allowed``. The room is the allowance of
    ``set_per_process_memory_fraction``, which torch's text has if there is one, else the device's.

    Args:
        reason: of any end; returned as it is if it is not torch's text of an OOM.
    """
    asked = _find_size(_ASKED, reason)
    if not reason.startswith(OUT_OF_MEMORY) or asked is None:
        return reason
    words = f"{OUT_OF_MEMORY}asked for {text.size(asked)}"
    allowed, allocated = _find_size(_ALLOWED, reason), _find_size(_ALLOCATED, reason)
    if allowed is not None and allocated is not None:
        reserved = allocated + (_find_size(_CACHED, reason) or 0)
        return f"{words}; {text.size(reserved)} of {text.size(allowed)} allowed"
    free = _FREE.search(reason)
    if free is not None:
        total, rest = _parse_size(*free.groups()[:2]), _parse_size(*free.groups()[2:])
        return f"{words}; {text.size(rest)} of {text.size(total)} free"
    return words


def _find_size(pattern: re.Pattern[str], reason: str) -> int | None:
    found = pattern.search(reason)
    return None if found is None else _parse_size(*found.groups())


def _parse_size(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])
