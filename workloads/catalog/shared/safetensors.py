"""The layout of a safetensors file, written and parsed with the standard library.

A file is the header's length (8 bytes, little-endian), the header (JSON: a name gives dtype, shape
and the tensor's bytes, counted from the header's end), and the data without holes.
Source: github.com/huggingface/safetensors, README, "Format".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000
"""Bytes; the safetensors library rejects longer ones."""
ALIGNMENT = 8
"""The header is padded with spaces to a multiple of this, so that the data is aligned."""
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I8": 1, "U8": 1}
METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a file."""

    name: str
    dtype: str
    """A key of :data:`ITEM_BYTES`."""
    shape: tuple[int, ...]
    begin: int
    end: int
    """First byte and the one after the last, counted from the end of the header."""


def lay_out(tensors: Iterable[tuple[str, str, tuple[int, ...]]]) -> tuple[StoredTensor, ...]:
    """Return the entries of tensors, given by name, dtype and shape, one after another."""
    entries, begin = [], 0
    for name, dtype, shape in tensors:
        end = begin + ITEM_BYTES[dtype] * math.prod(shape)
        entries.append(StoredTensor(name, dtype, shape, begin, end))
        begin = end
    return tuple(entries)


def encode_header(entries: Iterable[StoredTensor]) -> bytes:
    """Return the bytes before the data: the length and the padded JSON."""
    described = {
        entry.name: {
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "data_offsets": [entry.begin, entry.end],
        }
        for entry in entries
    }
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def header_length(start: bytes, file_size: int) -> int:
    """Return the length of the JSON from a file's first bytes.

    Raises:
        ValueError: the file is too short, or the header is longer than any valid one.
    """
    if len(start) < LENGTH_BYTES:
        raise ValueError(
            f"not a safetensors file: {len(start)} bytes, fewer than the 8 of the header's length"
        )
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > min(LONGEST_HEADER, file_size - LENGTH_BYTES):
        raise ValueError(f"not a safetensors file: a header of {length} bytes does not fit into it")
    return length


def parse_header(text: bytes, data_size: int) -> tuple[StoredTensor, ...]:
    """Return the entries of a header, in the order of their data.

    Args:
        text: the JSON, without the length.
        data_size: bytes of the file after the header.

    Raises:
        ValueError: it is not such a header, or the tensors do not fill the data without holes.
    """
    described = json.loads(text)
    if not isinstance(described, dict):
        raise ValueError("not a safetensors header: a JSON object is expected")
    entries = [_parse_entry(name, entry) for name, entry in described.items() if name != METADATA]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    position = 0
    for entry in entries:
        size = ITEM_BYTES[entry.dtype] * math.prod(entry.shape)
        if entry.begin != position or entry.end - entry.begin != size:
            raise ValueError(
                f"{entry.name}: bytes {entry.begin} to {entry.end}, expected {size} from {position}"
            )
        position = entry.end
    if position != data_size:
        raise ValueError(f"the tensors have {position} bytes, the file has {data_size}")
    return tuple(entries)


def _parse_entry(name: str, described: Any) -> StoredTensor:
    try:
        dtype, shape = described["dtype"], tuple(described["shape"])
        begin, end = described["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name}: dtype, shape and two data_offsets are expected") from None
    if dtype not in ITEM_BYTES:
        raise ValueError(f"{name}: dtype {dtype!r}, expected one of {', '.join(ITEM_BYTES)}")
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
        raise ValueError(f"{name}: shape and data_offsets are whole numbers, 0 or more")
    return StoredTensor(name, dtype, shape, begin, end)
