"""The text of ``torch.OutOfMemoryError``, as all versions since 1.0 word it.

It tells what a snapshot does not: the device's total, what this process holds besides PyTorch's
memory, and what other processes hold. Sizes are printed with two decimals, so they are true to
half of the last digit only.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tui.snapshots.model.results import OomText

_SIZE = r"(?<![\d.])(\d{1,12}(?:\.\d{1,9})?)\s*(bytes?|B|[KMGT]i?B)\b"
"""Twelve digits hold any size in any unit that torch prints; text of any length is not a size."""
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}

_START = re.compile(rf"Tried to allocate {_SIZE}", re.IGNORECASE)
_DEVICE = (
    re.compile(r"\(GPU (\d{1,5});"),
    re.compile(r"\b(?:GPU|XPU|device) (\d{1,5}) has a total"),
)
_LIMIT = 4000
"""Characters of one message at most: what follows belongs to something else."""

_SIZES = {
    "total": (
        rf"total capaci?ty of {_SIZE}",  # 2.1 misspells it
        rf"{_SIZE} total capacity",
    ),
    "device_free": (
        rf"of which {_SIZE} is free",
        rf"; {_SIZE} free;",
    ),
    "allowed": (rf"\b{_SIZE} allowed;",),
    "process": (rf"this process has {_SIZE} memory in use",),
    "allocated": (
        rf"Of the allocated memory {_SIZE} is allocated by PyTorch",
        rf"; {_SIZE} already allocated",
    ),
    "reserved": (
        rf"; {_SIZE} reserved in total by PyTorch",
        rf"; {_SIZE} cached",
    ),
    "unallocated": (rf"\b{_SIZE} is reserved by PyTorch but unallocated",),
    "private_pools": (rf"with {_SIZE} allocated in private pools",),
}
_PATTERNS = {
    name: tuple(re.compile(wording, re.IGNORECASE) for wording in wordings)
    for name, wordings in _SIZES.items()
}
_OTHER = re.compile(rf"\bProcess (\d{{1,10}}) has {_SIZE} memory in use", re.IGNORECASE)
_ADDRESS_SPACE = re.compile(
    r"virtual address space|out of (?:virtual )?address space|VA space", re.IGNORECASE
)


def parse_oom_texts(text: str) -> tuple[OomText, ...]:
    """Every message in a text, in its order: alone, in a traceback, or in a whole log."""
    starts = [found.start() for found in _START.finditer(text)]
    edges = [*starts, len(text)]
    return tuple(_parse(text[start : min(end, start + _LIMIT)]) for start, end in pairwise(edges))


def _parse(raw: str) -> OomText:
    # A log breaks lines where it likes.
    message = " ".join(raw.split())
    sizes = {name: _first(patterns, message) for name, patterns in _PATTERNS.items()}
    asked = _START.match(message)
    device = next((found for wording in _DEVICE if (found := wording.search(message))), None)
    reserved, allocated = sizes["reserved"], sizes["allocated"]
    unallocated = sizes["unallocated"]
    if reserved is None and allocated is not None and unallocated is not None:
        reserved = allocated + unallocated
    return OomText(
        asked=None if asked is None else to_bytes(asked[1], asked[2]),
        asked_within=0 if asked is None else _within(asked[1], asked[2]),
        device=None if device is None else int(device[1]),
        total=sizes["total"],
        device_free=sizes["device_free"],
        allowed=sizes["allowed"],
        process=sizes["process"],
        allocated=allocated,
        reserved=reserved,
        unallocated=unallocated,
        private_pools=sizes["private_pools"],
        others=tuple(
            (int(found[1]), to_bytes(found[2], found[3])) for found in _OTHER.finditer(message)
        ),
        address_space=_ADDRESS_SPACE.search(message) is not None,
    )


def _first(patterns: tuple[re.Pattern[str], ...], message: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(message)
        if found is not None:
            return to_bytes(found[1], found[2])
    return None


def _scale(unit: str) -> int:
    first = unit[0].upper()
    return 1 if first == "B" else 1024 ** _UNITS[first]


def to_bytes(number: str, unit: str) -> int:
    """``2.00``, ``GiB``: PyTorch divides by powers of 1024, also where it prints ``GB``."""
    return round(float(number) * _scale(unit))


def _within(number: str, unit: str) -> int:
    decimals = len(number.partition(".")[2])
    return -(-_scale(unit) // (2 * 10**decimals)) if decimals else 0


def matching_text(
    texts: tuple[OomText, ...], device: int, sizes: tuple[int, ...]
) -> OomText | None:
    """The message that tells of an OOM entry: of its size and device.

    A message that names no device fits any. Of several the last: the one that ended the program.

    Args:
        texts: the messages.
        device: of the entry.
        sizes: what the message may say was asked for.
    """
    fitting = [
        text
        for text in texts
        if text.asked is not None
        and any(abs(text.asked - size) <= text.asked_within for size in sizes)
        and text.device in (None, device)
    ]
    return fitting[-1] if fitting else None
