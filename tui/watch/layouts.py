"""How ``DeviceStats`` of torch's caching allocator lies in memory, and when its numbers hold.

Source: ``c10/core/CachingDeviceAllocator.h`` and ``Stat`` in ``c10/core/Allocator.h`` (until torch
2.7 ``c10/cuda/CUDACachingAllocator.h``). An array has three ``Stat`` (all, small pool, large pool)
of four signed 64-bit numbers: current, peak, allocated, freed. Pure.
"""

from __future__ import annotations

import struct
from operator import add, le, sub

from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

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


@frozen
class Layout:
    """Of ``DeviceStats``, up to ``num_ooms``."""

    versions: str
    """Of torch, that have it."""
    form: struct.Struct


LAYOUTS = (
    # A map of private pools, 32 bytes, lies between the sixth and the seventh array.
    Layout("2.13 and later", struct.Struct("<72q32x38q")),
    Layout("2.0 to 2.12", struct.Struct("<110q")),
)
LONGEST = max(layout.form.size for layout in LAYOUTS)
UNKNOWN_LAYOUT = "torch's layout is not known here (known: 2.0 to 2.12, 2.13 and later)"


def _every(numbers: Numbers, first: int) -> Numbers:
    return numbers[first:_IN_ARRAYS:4]


def held_before(numbers: Numbers) -> Numbers:
    """For each ``Stat`` what was held when its counts began: current - allocated + freed.

    All zero, unless ``reset_accumulated_memory_stats`` has begun the counts anew.
    """
    counted = map(sub, _every(numbers, 2), _every(numbers, 3))
    return tuple(map(sub, _every(numbers, 0), counted))


def is_sound(numbers: Numbers, before: Numbers = NOTHING) -> bool:
    """Whether no invariant is broken, as it is by numbers that changed while they were read.

    For each ``Stat``: 0 <= current <= peak, current = before + allocated - freed, and peak <=
    allocated where nothing was held before. All is small + large. Between arrays, what is known of
    a block: allocated <= active <= reserved, requested <= active.

    Args:
        numbers: as they were read.
        before: what was held when the counts began, as :func:`held_before` gives it.
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
    """Whether the device has ever held anything: where not, zeros say nothing of a layout."""
    peak, taken = _every(numbers, 1), _every(numbers, 2)
    return bool(peak[15] or taken[15])


def is_of_an_allocator(numbers: Numbers, before: Numbers = NOTHING) -> bool:
    """Whether sound numbers are an allocator's: what tells a layout from others.

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
    """Whether this can be what was held when the counts were begun anew, by its own invariants.

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
    """The numbers as figures of a device, as the runner's worker tells its own.

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
