"""The thresholds from which a holder of memory, or the request itself, is to blame for an OOM.

The explanation of an OOM and the verdict of a snapshot use the same ones, so that both name the
same cause. Sizes are in bytes, shares are fractions of 1.
"""

from __future__ import annotations

FOR_LONG = 0.05
"""Share of the used memory that must be released for a program to continue for long, if it ran
before."""
FOR_LONG_AT_START = 0.15
"""The same share during the first step, when later requests are unknown."""
FRAGMENTED = 0.2
"""Share of the used memory: from this value on, cached pieces are to blame if they were enough for
the request; below, only if they were also enough for a second such request."""
OTHERS_SHARE = 0.1
"""Minimum share of the device from which other processes are to blame: every process has a context,
and a desktop uses a little."""
NORMAL_OUTSIDE = 2 << 30
"""Maximum bytes that a process normally uses outside torch: context, kernels, libraries, NCCL."""
OUTSIDE_SHARE = 0.2
"""Minimum share of the device from which a process's memory outside torch is to blame."""
REQUEST_SHARE = 0.5
"""Share of the live bytes from which a request is itself to blame."""
REQUEST_OF_DEVICE = 0.2
"""Share of the device from which a request is itself to blame."""
ROOM_SHARE = 0.1
"""Share of the device: with this much free or cached, the device was not full."""
_SLACK = 1 << 20
"""Bytes by which a free piece may appear larger than it was: a block of the large pool keeps a rest
of at most 1 MiB instead of splitting it off. A small block is always split."""
SMALL_REQUEST = 1 << 20
"""``kSmallSize``: torch serves only requests up to this size from small segments."""
SIZE_WITHIN = 2 << 20
"""Tolerance in bytes: a request may be reported as the driver's segment size, in multiples of 2
MiB."""
_TOTAL_WITHIN = 1000
"""Relative precision of the total, as a divisor: the exception's text prints two decimals."""


def exceeds_device(needed: int, total: int | None) -> bool:
    """Return whether a request cannot fit even on an empty device.

    Args:
        needed: bytes requested from the driver.
        total: bytes of the device, as precise as an exception's text; None if unknown.
    """
    return total is not None and needed > total + total // _TOTAL_WITHIN


def exceeds_process_limit(needed: int, reserved: int, allowed: int | None) -> bool:
    """Return whether a request exceeds the limit of ``set_per_process_memory_fraction``.

    Args:
        needed: bytes requested from the driver.
        reserved: bytes that torch had from the driver.
        allowed: bytes that torch may have; None if there is no limit or it is unknown.
    """
    return allowed is not None and reserved + needed > allowed


def has_fitting_piece(requested: int, largest: int | None) -> bool:
    """Return whether a cached piece appears large enough for the refused request.

    Args:
        requested: bytes of the request.
        largest: bytes of the largest free piece of the requested kind; None if unknown.
    """
    slack = _SLACK if requested > SMALL_REQUEST else 0
    return largest is not None and largest > 0 and largest >= requested + slack


def has_room(room: int, device: int) -> bool:
    """Return whether the device was not full.

    Args:
        room: bytes that were free or cached.
        device: bytes of the device, or a lower bound.
    """
    return room >= ROOM_SHARE * device
