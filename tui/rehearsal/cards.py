"""The cards that a rehearsal can simulate, and what of a card changes a program's memory.

The total that torch reports is smaller than NVML's, which includes the driver's share. It differs
by some tens of MiB between driver versions; the table has the smallest that was found. The compute
capability decides which kernels torch chooses and how large cuBLAS's workspaces are; the number of
multiprocessors changes temporary buffers of reductions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.rehearsal.device.simulator import Settings

MIB = 1 << 20
CONTEXT_MIB = 500
"""A CUDA context with torch's kernels, assumed: it depends on the driver and on what is loaded."""


class UnknownCardError(ValueError):
    """No such card; the text says which there are."""


@dataclass(frozen=True, slots=True)
class Card:
    """One kind of GPU."""

    key: str
    """The word for ``--gpu``."""
    name: str
    """Short name on screen."""
    nvml_name: str
    """The name that NVML and torch report."""
    nvml_mib: int
    """Total memory that NVML reports, in MiB."""
    torch_mib: int
    """Total memory that torch reports (``total_memory``), in MiB."""
    capability: int
    """Compute capability, times ten."""
    sm_count: int
    sources: tuple[str, ...] = ()
    """Addresses of the pages that the two totals and the number of multiprocessors are from."""

    @property
    def total(self) -> int:
        """Total memory that torch reports, in bytes."""
        return self.torch_mib * MIB

    def settings(self, count: int) -> Settings:
        """Return the configuration of the simulated GPU.

        Args:
            count: number of such cards in the machine.
        """
        shape = SHAPES[self.capability]
        return Settings(
            devices=count,
            total_mib=self.nvml_mib,
            reserved_mib=self.nvml_mib - self.torch_mib,
            base_mib=0,
            context_mib=CONTEXT_MIB,
            context_ms=0,
            name=self.nvml_name,
            capability=self.capability,
            sm_count=self.sm_count,
            sm_threads=shape.threads,
            block_kib=shape.block_kib,
            l2_mib=shape.l2_mib,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """What all cards of one compute capability have in common."""

    threads: int
    """Most threads of a multiprocessor."""
    block_kib: int
    """Most shared memory of a block, in KiB."""
    l2_mib: int
    """Level 2 cache of its largest card, in MiB."""


SHAPES: dict[int, Shape] = {
    75: Shape(1024, 64, 6),
    80: Shape(2048, 163, 40),
    86: Shape(1536, 99, 6),
    89: Shape(1536, 99, 96),
    90: Shape(2048, 227, 50),
    100: Shape(2048, 227, 126),
    120: Shape(1536, 99, 96),
}
"""By compute capability, times ten. From the table "Technical Specifications per Compute
Capability" of the CUDA C++ Programming Guide; the caches from the architectures' white papers."""


def parse_size(text: str) -> int | None:
    """Return the MiB of a size such as ``24G`` or ``24576M``; ``None`` for another text."""
    found = re.fullmatch(r"(\d{1,6})\s*([GM])(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        return None
    return int(found[1]) * (1024 if found[2].upper() == "G" else 1)


def find_card(text: str) -> Card:
    """Return the card of a word such as ``h100``, or one of a size such as ``24G``.

    A size stands for the memory that torch sees, on a card that is otherwise an H100: of all cards
    it has the largest cuBLAS workspaces.

    Raises:
        UnknownCardError: there is no such card, or the size leaves no room for a context.
    """
    word = text.strip().lower()
    for card in CARDS:
        if word == card.key:
            return card
    mib = parse_size(text)
    if mib is None:
        raise UnknownCardError(
            f"{text}: no such card; give one of {', '.join(card.key for card in CARDS)}, or a size"
            " such as 24G"
        )
    if mib <= CONTEXT_MIB:
        raise UnknownCardError(f"{text}: a CUDA context alone takes {CONTEXT_MIB} MiB")
    name = f"a card of {text.strip()}"
    return Card(word, name, f"simulated GPU of {text.strip()}", mib, mib, 90, 132)
