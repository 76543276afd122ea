"""What is concluded from the evidence of one failed allocation: facts that go over a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui.snapshots.explain.inventory import CodeLine

AccountName = Literal[
    "leak",
    "parameters",
    "gradients",
    "optimizer state",
    "buffers",
    "activations",
    "temporaries",
    "other tensors",
    "pending",
    "rounding",
    "fragmentation",
    "other streams",
    "CUDA graphs",
    "MemPool",
    "private pools",
    "other processes",
    "outside torch",
    "unknown",
]
"""A row of the account: what holds the device's used memory."""
LeadingCause = Literal[
    "leak",
    "parameters",
    "gradients",
    "optimizer state",
    "buffers",
    "activations",
    "temporaries",
    "other tensors",
    "pending",
    "rounding",
    "fragmentation",
    "other streams",
    "CUDA graphs",
    "MemPool",
    "private pools",
    "process limit",
    "other processes",
    "outside torch",
    "larger than the device",
    "larger than what was free",
    "refused with memory free",
    "address space",
    "full",
    "unknown",
]
"""Without it this request and the next steps would have fit.

``full``: live tensors of this process fill the device, and nothing tells what they are for.
``larger than what was free``: one request for a large part of the device.
"""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that would help, with the figure that says so."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One cause and what it holds of the device."""

    name: AccountName
    bytes: int
    share: float
    """Of the device's used memory, 0 to 1."""
    words: str
    """Whose it is, or why that is not known."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one allocation failed."""

    line: str
    """The first line: where and when it failed, then the conclusion."""
    conclusion: str
    """One sentence, without place and step."""
    cause: LeadingCause
    where: CodeLine | None
    """The user's own frame."""
    backward: bool
    """It failed in a backward pass, which ``where`` has called."""
    step: int | None
    used: int
    """Bytes of the device that were used; the rows add up to it."""
    device_bytes: int | None
    """The device's total; ``None`` where not even a usual size fits."""
    device_words: str
    """``7.4 GiB``, ``an 80 GB device (inferred)``, ``at least 2.1 GiB``."""
    account: tuple[AccountRow, ...]
    """Largest first; ``unknown`` last."""
    advice: tuple[Remedy, ...]
    unavailable: dict[str, str]
