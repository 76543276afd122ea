"""Conclusions on one failed allocation: facts that cross a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui.snapshots.explain.frames import Frame

AccountName = Literal[
    "leak",
    "parameters",
    "gradients",
    "optimizer state",
    "buffers",
    "cuBLAS workspace",
    "activations",
    "temporaries",
    "other tensors",
    "live tensors",
    "pending",
    "rounding",
    "cached",
    "fragmentation",
    "other streams",
    "CUDA graphs",
    "MemPool",
    "private pools",
    "other processes",
    "outside torch",
    "unknown",
]
"""Name of an account row: one holder of the device's used memory.

``live tensors``: all of them, with nothing known of their purposes. ``cached``: not in use, in
pieces of unknown size. Where a snapshot tells them apart, the names are ``fragmentation`` to
``private pools``.
"""
LeadingCause = Literal[
    AccountName,
    "process limit",
    "larger than the device",
    "larger than what was free",
    "refused with memory free",
    "address space",
    "full",
]
"""The cause without which this request and the next steps would have fit.

``full``: live tensors of this process fill the device, and their purpose is unknown.
``larger than what was free``: one request for a large part of the device.
"""
LIVE_CAUSES: tuple[LeadingCause, ...] = (
    "leak",
    "parameters",
    "gradients",
    "optimizer state",
    "buffers",
    "cuBLAS workspace",
    "activations",
    "temporaries",
    "other tensors",
    "live tensors",
    "pending",
    "rounding",
    "full",
)
"""Leading causes that consist of this process's live memory."""


REFUSED = "the device had room; perhaps a limit refused it"
"""The refusal of a request by an unknown limit."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One suggested remedy with the figure that supports it."""

    what: str
    why: str
    futile: str = ""
    """A measure that would not help, which the remedy warns against; empty for a helpful remedy."""


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One cause and the bytes that it holds on the device."""

    name: AccountName
    bytes: int
    share: float
    """Share of the device's used memory, 0 to 1."""
    description: str
    """The owner of the bytes, or the reason why it is unknown."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason why one allocation failed."""

    line: str
    """The first line: time and place of the failure, then the conclusion."""
    conclusion: str
    """One sentence, without place and step."""
    cause: LeadingCause
    where: Frame | None
    """The user's own frame."""
    backward: bool
    """True if the failure happened in a backward pass called from ``where``."""
    step: int | None
    used: int
    """Used bytes of the device; the rows add up to this value."""
    device_bytes: int | None
    """Total bytes of the device; ``None`` if not even a usual capacity fits."""
    device_words: str
    """The device's capacity: ``7.4 GiB``, ``an 80 GB device (inferred)``, ``at least 2.1 GiB``."""
    account: tuple[AccountRow, ...]
    """The rows, largest first; ``unknown`` last."""
    advice: tuple[Remedy, ...]
    unavailable: dict[str, str]
    refusal: str = ""
    """What refused the request although the device had room, unless the conclusion says it."""
    failure: str = ""
    """The start of :attr:`line`: time and place of the failure."""

    def split(self) -> tuple[str, str]:
        """Return the failure, with what precedes it in :attr:`line`, and the conclusion."""
        before, sign, conclusion = self.line.partition(f"{self.failure}. ")
        return (before + self.failure, conclusion) if self.failure and sign else (self.line, "")
