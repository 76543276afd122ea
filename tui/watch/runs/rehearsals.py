"""The note of a rehearsal in its run's folder: the simulated cards, and at the end the verdict."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tui.core import reports
from tui.watch.runs.runs import is_process_running
from tui.watch.runs.untrusted import UntrustedError, parse_as, parse_object, read_start
from workloads.agent import identity
from workloads.protocol.wire import field_values

FILE = "rehearsal.json"
_MOST_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class RehearsalNote:
    """A run that is a rehearsal: its command ran on simulated cards."""

    card: str
    """Short name of the card."""
    gpus: int
    """Number of such cards in the simulated machine."""
    pid: int
    """The process that rehearses, and that concludes it."""
    start_ticks: int | None
    """Start time of that process in the kernel's ticks."""
    answer: str = ""
    """The answer, such as ``fits``; empty until it is concluded."""
    conclusion: tuple[str, ...] = ()
    """The verdict, a paragraph each, the answer first."""
    total: int | None = None
    """Bytes of memory of a card, as torch reports them."""

    @property
    def is_in_progress(self) -> bool:
        """True if the process that concludes it still runs, on this machine."""
        return not self.answer and is_process_running(self.pid, self.start_ticks)

    @property
    def devices(self) -> str:
        """The simulated devices in words, such as ``2 simulated H100 80 GB``."""
        card = self.card.removeprefix("a ")
        if self.gpus == 1:
            return f"a simulated {card}"
        several = f"cards {card.removeprefix('card ')}" if card.startswith("card ") else card
        return f"{self.gpus} simulated {several}"


def begin_note(card: str, gpus: int, total: int) -> RehearsalNote:
    """Return the note of a rehearsal that this process concludes.

    Args:
        card: short name of the card.
        gpus: number of such cards.
        total: bytes of memory of each.
    """
    ticks = int(identity().rpartition("-")[2])
    return RehearsalNote(card, gpus, os.getpid(), ticks, total=total)


def save_note(folder: Path, note: RehearsalNote) -> None:
    """Write a note into a run's folder.

    Raises:
        OSError: it cannot be written.
    """
    reports.write_private(folder / FILE, json.dumps(field_values(note)).encode() + b"\n")


def read_note(folder: Path) -> RehearsalNote | None:
    """Return the note in a run's folder; ``None`` if it is no rehearsal, or cannot be read."""
    try:
        data = read_start(folder / FILE, _MOST_BYTES)
        return parse_as(RehearsalNote, parse_object(data, _MOST_BYTES), FILE)
    except (OSError, UntrustedError):
        return None
