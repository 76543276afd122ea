"""Where a library's symbol lies in a process's memory, and how torch's ``DeviceStats`` lies there.

What the dynamic linker reads is mapped with the library, so no file is opened: the library may
lie in another mount namespace, or its file may be deleted. The structures are those of the System V
ABI (gABI, chapter 5) and of the GNU hash section, 64 bits, little endian.

Source: ``c10/core/CachingDeviceAllocator.h`` and ``Stat`` in ``c10/core/Allocator.h`` (until torch
2.7 ``c10/cuda/CUDACachingAllocator.h``). An array has three ``Stat`` (all, small pool, large pool)
of four signed 64-bit numbers: current, peak, allocated, freed. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from operator import add, le, sub
from typing import Any

from workloads.protocol.messages import TorchMemory

Reader = Callable[[int, int], bytes]
"""Takes an address and a number of bytes; returns those that can be read, possibly fewer."""

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 0, 5, 6, 0x6FFFFEF5
_MOST_HEADERS = 64
_MOST_ENTRIES = 512
_MOST_IN_A_CHAIN = 4096
_PAGE = 4096


class ElfError(ValueError):
    """The memory holds no library whose symbols can be read; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library as it is loaded."""

    bias: int
    """What is added to the addresses that stand in the library."""
    strings: int
    """Address of its dynamic strings."""
    symbols: int
    """Address of its dynamic symbols."""
    hashes: int
    """Address of its GNU hash section."""


def library_at(read: Reader, base: int) -> Library:
    """Return the dynamic tables of the library whose first page is mapped at ``base``.

    Raises:
        ElfError: there is none, or it has no GNU hash section.
    """
    header = _take(read, base, _HEADER)
    magic, width, order, _, _, _, _, headers_at, _, _, _, size, count = header
    if (magic, width, order) != (b"\x7fELF", 2, 1):
        raise ElfError("no 64-bit little-endian ELF file is mapped there")
    if size != _PROGRAM_HEADER.size or not 0 < count <= _MOST_HEADERS:
        raise ElfError(f"{count} program headers of {size} bytes")
    segments = [
        _take(read, base + headers_at + number * size, _PROGRAM_HEADER) for number in range(count)
    ]
    first = next((each for each in segments if each[0] == _PT_LOAD and each[2] == 0), None)
    dynamic = next((each for each in segments if each[0] == _PT_DYNAMIC), None)
    if first is None or dynamic is None:
        raise ElfError("it is not linked dynamically")
    bias = base - first[3] // _PAGE * _PAGE
    found = {}
    for number in range(min(dynamic[6] // _DYNAMIC.size, _MOST_ENTRIES)):
        tag, value = _take(read, bias + dynamic[3] + number * _DYNAMIC.size, _DYNAMIC)
        if tag == _DT_NULL:
            break
        # glibc puts absolute addresses in place of those of the file; others leave them.
        found[tag] = value if value >= base else bias + value
    try:
        return Library(bias, found[_DT_STRTAB], found[_DT_SYMTAB], found[_DT_GNU_HASH])
    except KeyError as error:
        raise ElfError(f"it has no dynamic entry {error.args[0]:#x}") from error


def symbol_address(read: Reader, library: Library, name: bytes) -> int | None:
    """Return the address of a symbol that the library defines; ``None`` where it defines none.

    Raises:
        ElfError: its tables cannot be read.
    """
    counts = struct.Struct("<IIII")
    buckets, first, blooms, _ = _take(read, library.hashes, counts)
    if not buckets:
        return None
    wanted = _gnu_hash(name)
    buckets_at = library.hashes + counts.size + 8 * blooms
    chains_at = buckets_at + 4 * buckets
    word = struct.Struct("<I")
    (index,) = _take(read, buckets_at + 4 * (wanted % buckets), word)
    if index < first:
        return None
    for number in range(index, index + _MOST_IN_A_CHAIN):
        (hashed,) = _take(read, chains_at + 4 * (number - first), word)
        if hashed | 1 == wanted | 1:
            symbol = _take(read, library.symbols + number * _SYMBOL.size, _SYMBOL)
            name_at, _, _, section, value, _ = symbol
            if section and read(library.strings + name_at, len(name) + 1) == name + b"\0":
                return int(library.bias + value)
        if hashed & 1:
            return None
    raise ElfError("a chain of its hash section does not end")


def _gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _take(read: Reader, address: int, form: struct.Struct) -> tuple[Any, ...]:
    data = read(address, form.size)
    if len(data) != form.size:
        raise ElfError(f"{form.size} bytes at {address:#x} cannot be read")
    return form.unpack(data)


ARRAYS = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
"""In the order in which they lie in memory."""

Numbers = tuple[int, ...]
"""108 numbers of the nine arrays, then ``num_alloc_retries`` and ``num_ooms``."""

_IN_ARRAYS = 12 * len(ARRAYS)
_HELD = 3 * len(ARRAYS)
_SMALLEST_BLOCK = 512
"""Bytes: ``kMinBlockSize`` in ``CUDACachingAllocator.cpp``, to which sizes are rounded up."""

NOTHING: Numbers = (0,) * _HELD
"""What was held when the counts began: nothing, as in a process that has never reset them."""


@dataclass(frozen=True, slots=True)
class DeviceStatsLayout:
    """Of ``DeviceStats``, up to ``num_ooms``."""

    versions: str
    """Of torch, that have it."""
    form: struct.Struct


LAYOUTS = (
    # A map of private pools, 32 bytes, lies between the sixth and the seventh array.
    DeviceStatsLayout("2.13 and later", struct.Struct("<72q32x38q")),
    DeviceStatsLayout("2.0 to 2.12", struct.Struct("<110q")),
)
LONGEST = max(layout.form.size for layout in LAYOUTS)
UNKNOWN_LAYOUT = "unknown memory layout of this torch version (known: 2.0 to 2.12, 2.13 and later)"


def _every(numbers: Numbers, first: int) -> Numbers:
    return numbers[first:_IN_ARRAYS:4]


def counts_before(numbers: Numbers) -> Numbers:
    """For each ``Stat`` what was held when its counts began: current - allocated + freed.

    All zero, unless ``reset_accumulated_memory_stats`` has begun the counts anew.
    """
    counted = map(sub, _every(numbers, 2), _every(numbers, 3))
    return tuple(map(sub, _every(numbers, 0), counted))


def is_sound(numbers: Numbers, before: Numbers = NOTHING) -> bool:
    """Return whether no invariant is broken, as it is by numbers that changed while they were read.

    For each ``Stat``: 0 <= current <= peak, current = before + allocated - freed, and peak <=
    allocated where nothing was held before. All is small + large. Between arrays, what is known of
    a block: allocated <= active <= reserved, requested <= active.

    Args:
        numbers: as they were read.
        before: what was held when the counts began, as :func:`counts_before` gives it.
    """
    current, peak = _every(numbers, 0), _every(numbers, 1)
    taken, freed = _every(numbers, 2), _every(numbers, 3)
    return (
        min(current) >= 0
        and min(freed) >= 0
        and min(numbers[_IN_ARRAYS:]) >= 0
        and all(map(le, current, peak))
        and current == tuple(map(add, before, map(sub, taken, freed)))
        and (before != NOTHING or all(map(le, peak, taken)))
        and all(one[0::3] == tuple(map(add, one[1::3], one[2::3])) for one in (current, taken))
        and current[0] <= current[6]
        and current[12] <= current[18] <= current[15]
        and current[24] <= current[18]
    )


def was_used(numbers: Numbers) -> bool:
    """Return whether the device was ever used: where not, zeros say nothing of a layout."""
    peak, taken = _every(numbers, 1), _every(numbers, 2)
    return bool(peak[15] or taken[15])


def is_of_an_allocator(numbers: Numbers, before: Numbers = NOTHING) -> bool:
    """Return whether sound numbers are an allocator's: what tells a layout from others.

    No block is smaller than 512 bytes, none was asked for with less than a byte, and what is
    allocated was reserved first.
    """
    current, taken = _every(numbers, 0), _every(numbers, 2)
    return (
        was_used(numbers)
        and is_sound(numbers, before)
        and current[12] >= _SMALLEST_BLOCK * current[0]
        and current[18] >= _SMALLEST_BLOCK * current[6]
        and current[24] >= current[6]
        and taken[12] >= _SMALLEST_BLOCK * taken[0]
        and taken[18] >= _SMALLEST_BLOCK * taken[6]
        and taken[24] >= taken[6]
    )


def may_have_been_reset(before: Numbers) -> bool:
    """Return whether these can be the figures at a reset of the counts, by their invariants.

    It was a state of the allocator itself. Segments and their bytes, at least, were held: a reading
    between two writes of one change breaks a single array.
    """
    return (
        min(before) >= 0
        and before[0::3] == tuple(map(add, before[1::3], before[2::3]))
        and before[0] <= before[6]
        and before[12] <= before[18] <= before[15]
        and before[24] <= before[18]
        and sum(map(bool, before[0::3])) >= 2
    )


def torch_memory(numbers: Numbers, pid: int, ordinal: int, at: float) -> TorchMemory:
    """Return the numbers as figures of a device, as the runner's worker tells its own.

    What torch has given to cuBLAS is counted as allocated: from outside it is not told apart.

    Args:
        numbers: sound ones.
        pid: whose they are.
        ordinal: of the device, as that process counts them.
        at: Unix time at which they were read.
    """
    return TorchMemory(
        device=f"cuda:{ordinal}",
        pid=pid,
        at=at,
        requested=numbers[96],
        allocated=numbers[48],
        active=numbers[72],
        reserved=numbers[60],
        inactive_split=numbers[84],
        allocated_peak=numbers[49],
        reserved_peak=numbers[61],
        alloc_retries=numbers[108],
        ooms=numbers[109],
        reserved_taken=numbers[62],
        reserved_given_back=numbers[63],
    )
