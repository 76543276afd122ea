"""Addresses of library symbols in a process's memory, and layouts of torch's ``DeviceStats``.

The tables for the dynamic linker are mapped with the library, so this module opens no file: the
library may lie in another mount namespace, or its file may be deleted. The structures are those of
the System V ABI (gABI, chapter 5) and of the GNU hash section, 64 bits, little endian.

Source: ``c10/core/CachingDeviceAllocator.h`` and ``Stat`` in ``c10/core/Allocator.h`` (until torch
2.7 ``c10/cuda/CUDACachingAllocator.h``). An array has three ``Stat`` (all, small pool, large pool)
of four signed 64-bit numbers: current, peak, allocated, freed. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from operator import add, le, sub
from typing import Any, Callable, Tuple

from workloads.protocol.torch_memory import TorchMemory

Reader = Callable[[int, int], bytes]
"""Function of an address and a number of bytes that returns the readable bytes, possibly fewer."""

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
    """The memory contains no library with readable symbols; the text names the missing part."""


@dataclass(frozen=True)
class Library:
    """A loaded library."""

    bias: int
    """The offset to add to the library's own addresses."""
    strings: int
    """Address of its dynamic strings."""
    symbols: int
    """Address of its dynamic symbols."""
    hashes: int
    """Address of its GNU hash section."""


def library_at(read: Reader, base: int) -> Library:
    """Return the dynamic tables of the library whose first page is mapped at ``base``.

    Raises:
        ElfError: there is no library, or it has no GNU hash section.
    """
    header = _unpack(read, base, _HEADER)
    magic, width, order, _, _, _, _, headers_at, _, _, _, size, count = header
    if (magic, width, order) != (b"\x7fELF", 2, 1):
        raise ElfError("no 64-bit little-endian ELF file is mapped there")
    if size != _PROGRAM_HEADER.size or not 0 < count <= _MOST_HEADERS:
        raise ElfError(f"{count} program headers of {size} bytes")
    segments = [
        _unpack(read, base + headers_at + number * size, _PROGRAM_HEADER) for number in range(count)
    ]
    first = next(
        (segment for segment in segments if segment[0] == _PT_LOAD and segment[2] == 0), None
    )
    dynamic = next((segment for segment in segments if segment[0] == _PT_DYNAMIC), None)
    if first is None or dynamic is None:
        raise ElfError("it is not linked dynamically")
    bias = base - first[3] // _PAGE * _PAGE
    libraries = {}
    for number in range(min(dynamic[6] // _DYNAMIC.size, _MOST_ENTRIES)):
        tag, value = _unpack(read, bias + dynamic[3] + number * _DYNAMIC.size, _DYNAMIC)
        if tag == _DT_NULL:
            break
        # glibc replaces the file's addresses by absolute ones; other C libraries do not.
        libraries[tag] = value if value >= base else bias + value
    try:
        return Library(bias, libraries[_DT_STRTAB], libraries[_DT_SYMTAB], libraries[_DT_GNU_HASH])
    except KeyError as error:
        raise ElfError(f"it has no dynamic entry {error.args[0]:#x}") from error


def symbol_address(read: Reader, library: Library, name: bytes) -> int | None:
    """Return the address of a symbol, or ``None`` if the library does not define it.

    Raises:
        ElfError: the library's tables are unreadable.
    """
    counts = struct.Struct("<IIII")
    buckets, first, blooms, _ = _unpack(read, library.hashes, counts)
    if not buckets:
        return None
    hash_ = _gnu_hash(name)
    buckets_at = library.hashes + counts.size + 8 * blooms
    chains_at = buckets_at + 4 * buckets
    word = struct.Struct("<I")
    (index,) = _unpack(read, buckets_at + 4 * (hash_ % buckets), word)
    if index < first:
        return None
    for number in range(index, index + _MOST_IN_A_CHAIN):
        (hashed,) = _unpack(read, chains_at + 4 * (number - first), word)
        if hashed | 1 == hash_ | 1:
            symbol = _unpack(read, library.symbols + number * _SYMBOL.size, _SYMBOL)
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


def _unpack(read: Reader, address: int, form: struct.Struct) -> tuple[Any, ...]:
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
"""The arrays in their order in memory."""

Numbers = Tuple[int, ...]
"""The 108 numbers of the nine arrays, then ``num_alloc_retries`` and ``num_ooms``."""

_IN_ARRAYS = 12 * len(ARRAYS)
_HELD = 3 * len(ARRAYS)
_SMALLEST_BLOCK = 512
"""Bytes to a multiple of which torch rounds sizes up: ``kMinBlockSize`` in
``CUDACachingAllocator.cpp``."""

NOTHING: Numbers = (0,) * _HELD
"""Memory in use when the counts began: none, as in a process that has never reset them."""


@dataclass(frozen=True)
class DeviceStatsLayout:
    """A layout of ``DeviceStats`` up to ``num_ooms``."""

    versions: str
    """The torch versions with this layout."""
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
    """Compute each ``Stat``'s value at the start of its counts: current - allocated + freed.

    All are zero unless ``reset_accumulated_memory_stats`` has restarted the counts.
    """
    counted = map(sub, _every(numbers, 2), _every(numbers, 3))
    return tuple(map(sub, _every(numbers, 0), counted))


def is_sound(numbers: Numbers, before: Numbers = NOTHING) -> bool:
    """Return whether all invariants hold, which a change during the reading would break.

    For each ``Stat``: 0 <= current <= peak, current = before + allocated - freed, and peak <=
    allocated if before is 0. All is small + large. Between arrays, by the rules for a
    block: allocated <= active <= reserved, requested <= active.

    Args:
        numbers: the numbers read.
        before: the values at the start of the counts, from :func:`counts_before`.
    """
    current, peak = _every(numbers, 0), _every(numbers, 1)
    allocated, freed = _every(numbers, 2), _every(numbers, 3)
    return (
        min(current) >= 0
        and min(freed) >= 0
        and min(numbers[_IN_ARRAYS:]) >= 0
        and all(map(le, current, peak))
        and current == tuple(map(add, before, map(sub, allocated, freed)))
        and (before != NOTHING or all(map(le, peak, allocated)))
        and _pools_add_up(allocated)
        and _is_possible(current)
    )


def _pools_add_up(values: Numbers) -> bool:
    """Return whether each array's total is that of the small and the large pool."""
    return values[0::3] == tuple(map(add, values[1::3], values[2::3]))


def _is_possible(current: Numbers) -> bool:
    """Return whether an allocator can have these current values, by the invariants between arrays.

    Args:
        current: the current values of the nine arrays, of three pools each.
    """
    return (
        _pools_add_up(current)
        and current[0] <= current[6]
        and current[12] <= current[18] <= current[15]
        and current[24] <= current[18]
    )


def was_used(numbers: Numbers) -> bool:
    """Return whether the device was ever used: zeros of an unused device fit any layout."""
    peak, allocated = _every(numbers, 1), _every(numbers, 2)
    return bool(peak[15] or allocated[15])


def is_of_an_allocator(numbers: Numbers, before: Numbers = NOTHING) -> bool:
    """Return whether sound numbers can be an allocator's, which identifies a layout.

    No block is smaller than 512 bytes, no request is smaller than a byte, and allocated memory is
    reserved first.
    """
    current, allocated = _every(numbers, 0), _every(numbers, 2)
    return (
        was_used(numbers)
        and is_sound(numbers, before)
        and all(
            values[12] >= _SMALLEST_BLOCK * values[0]
            and values[18] >= _SMALLEST_BLOCK * values[6]
            and values[24] >= values[6]
            for values in (current, allocated)
        )
    )


def may_have_been_reset(before: Numbers) -> bool:
    """Return whether these can be the figures at a reset of the counts, by their invariants.

    The figures must be a state of the allocator itself, with at least two nonzero arrays, such as
    segments and their bytes: a reading between two writes of one change breaks a single array.
    """
    return min(before) >= 0 and _is_possible(before) and sum(map(bool, before[0::3])) >= 2


def torch_memory(numbers: Numbers, pid: int, ordinal: int, at: float) -> TorchMemory:
    """Convert the numbers to figures of a device, in the form of the runner's worker.

    Memory of cuBLAS counts as allocated, since a reader from outside cannot separate it.

    Args:
        numbers: sound numbers.
        pid: the process of the numbers.
        ordinal: the process's own index of the device.
        at: Unix time of the reading.
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
        reserved_allocated=numbers[62],
        reserved_freed=numbers[63],
    )
