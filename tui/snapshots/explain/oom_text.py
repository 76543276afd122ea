"""The text of one ``torch.OutOfMemoryError``, as worded by all versions since 1.0. Pure.

It contains facts missing from a snapshot: the device's total, this process's memory outside
PyTorch, and the memory of other processes. Sizes have two decimals, so they are exact to half of
the last digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from tui.snapshots.explain.evidence import Holder

TEXT_ROUNDING = (1 << 30) // 200
"""Bytes by which a printed size may be wrong: it has two decimals of a GiB."""


@dataclass(frozen=True, slots=True)
class OomText:
    """The content of one ``torch.OutOfMemoryError`` message; sizes as printed, to 2 digits."""

    requested: int | None
    requested_within: int = 0
    """Half of the last printed digit in bytes, the maximum rounding error of the printed size."""
    device: int | None = None
    total: int | None = None
    device_free: int | None = None
    allowed: int | None = None
    """The limit of ``set_per_process_memory_fraction``, if one was set."""
    process: int | None = None
    """Bytes that this process uses on the device, including non-PyTorch memory."""
    others: tuple[tuple[int, int], ...] = ()
    """Pid and bytes of each other process."""
    address_space: bool = False
    """True if virtual address space ran out, not memory."""
    logged: bool = False
    """True if torch logged the message when the driver refused memory, without an exception."""


_SIZE = r"(?<![\d.])(\d{1,12}(?:\.\d{1,9})?)\s*(bytes?|B|[KMGT]i?B)\b"
"""Twelve digits are enough for any size that torch prints; a longer number is not a size."""
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}

_START = re.compile(rf"Tried to allocate {_SIZE}", re.IGNORECASE)
_WARNING = re.compile(
    r"memory allocation failed with OOM on device (\d{1,5}) while trying to allocate (\d{1,20})"
    r" bytes \(free: (\d{1,20}), total: (\d{1,20})\)",
    re.IGNORECASE,
)
"""Log line of torch 2.13 for each refusal by the driver, with or without an exception, in bytes."""
_DEVICE = (
    re.compile(r"\(GPU (\d{1,5});"),
    re.compile(r"\b(?:GPU|XPU|device) (\d{1,5}) has a total"),
)
_LONGEST_MESSAGE = 4000
"""Maximum number of characters in one message; any following text belongs to something else."""

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
    """Parse every message in a text, in order: alone, in a traceback, or in a whole log.

    Messages are texts of the exception, and log lines of torch 2.13 for refusals by the driver.
    """
    warnings = {match.start(): match for match in _WARNING.finditer(" ".join(text.split("\n")))}
    starts = {match.start() for match in _START.finditer(text)}
    edges = [*sorted(starts | warnings.keys()), len(text)]
    return tuple(
        _parse_warning(warnings[start])
        if start in warnings
        else _parse(text[start : min(end, start + _LONGEST_MESSAGE)])
        for start, end in pairwise(edges)
    )


def _parse_warning(match: re.Match[str]) -> OomText:
    device, requested, free, total = map(int, match.groups())
    return OomText(requested, device=device, total=total, device_free=free, logged=True)


def _parse(raw: str) -> OomText:
    # A log may break lines anywhere.
    message = " ".join(raw.split())
    sizes = {name: _first(patterns, message) for name, patterns in _PATTERNS.items()}
    requested = _START.match(message)
    device = next((match for wording in _DEVICE if (match := wording.search(message))), None)
    return OomText(
        requested=None if requested is None else to_bytes(requested[1], requested[2]),
        requested_within=0 if requested is None else _within(requested[1], requested[2]),
        device=None if device is None else int(device[1]),
        total=sizes["total"],
        device_free=sizes["device_free"],
        allowed=sizes["allowed"],
        process=sizes["process"],
        others=tuple(
            (int(match[1]), to_bytes(match[2], match[3])) for match in _OTHER.finditer(message)
        ),
        address_space=_ADDRESS_SPACE.search(message) is not None,
    )


def _first(patterns: tuple[re.Pattern[str], ...], message: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(message)
        if match is not None:
            return to_bytes(match[1], match[2])
    return None


def _scale(unit: str) -> int:
    first = unit[0].upper()
    return 1 if first == "B" else 1024 ** _UNITS[first]


def to_bytes(number: str, unit: str) -> int:
    """Convert ``2.00``, ``GiB`` to bytes: PyTorch divides by powers of 1024, even for ``GB``."""
    return round(float(number) * _scale(unit))


def _within(number: str, unit: str) -> int:
    decimals = len(number.partition(".")[2])
    return -(-_scale(unit) // (2 * 10**decimals)) if decimals else 0


def compute_others(message: OomText, reserved: int, free: int | None) -> int | None:
    """Return the memory of other processes that a message contains.

    If a message names processes but not this one, as in a container that hides its own pid, the
    process with as much memory as is reserved here counts as this process.
    """
    free = message.device_free if message.device_free is not None else free
    if message.process is not None and message.total is not None and free is not None:
        others = message.total - free - message.process
        # Three figures with two decimals each, mostly GiB: a smaller remainder is rounding.
        unit = 1 << 30 if message.total > 1 << 30 else 1 << 20
        return others if others > 3 * unit // 200 else 0
    if message.others:
        sizes = sorted(size for _, size in message.others)
        if message.process is None:
            own = next((size for size in sizes if size >= reserved), None)
            if own is not None:
                sizes.remove(own)
        return sum(sizes)
    return None


def choose_process(message: OomText | None, listed: int | None) -> int | None:
    """Return the bytes of this process on the device, exact if possible.

    Args:
        message: the exception's text, with two decimals of a GiB.
        listed: the bytes that NVML listed, perhaps at another moment.
    """
    printed = None if message is None else message.process
    if printed is None or (listed is not None and abs(listed - printed) <= TEXT_ROUNDING):
        return listed
    return printed


def list_other_holders(message: OomText | None, known: tuple[Holder, ...]) -> tuple[Holder, ...]:
    """List other processes from the text; without this process's own figure they may include it."""
    if message is None or message.process is None:
        return ()
    names = {holder.pid: (holder.user, holder.command) for holder in known}
    return tuple(Holder(pid, size, *names.get(pid, ("", ""))) for pid, size in message.others)
