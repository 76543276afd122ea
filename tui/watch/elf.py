"""Where an exported symbol of a loaded library lies, from the library's image in memory.

What the dynamic linker reads is mapped with the library, so no file is opened: the library may
lie in another mount namespace, or its file may be deleted. The structures are those of the System V
ABI (gABI, chapter 5) and of the GNU hash section, 64 bits, little endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from workloads.protocol.frozen import frozen

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


@frozen
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
    """The dynamic tables of the library whose first page is mapped at ``base``.

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
    """The address of a symbol that the library defines; ``None`` where it defines none.

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
