"""What is known of a leak: its holder, its bytes and its pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui.core.text.numbers import round_size
from tui.snapshots.explain.evidence import Grown, Rate
from tui.snapshots.explain.frames import format_line
from tui.snapshots.explain.inventory import CodeLine

LeakKind = Literal["graphs", "total", "list", "cat", "traceback", "handled", "unnamed"]
"""Kind of growth: a container whose tensors carry graphs; one graph that accumulates over steps; a
container of plain tensors; a tensor replaced by a longer one; frames that a stored exception keeps
alive, or one whose except clause is running; an unnamed holder."""


@dataclass(frozen=True, slots=True)
class Leak:
    """The holder of growing memory."""

    kind: LeakKind
    subject: str
    """Description of the holder: ``losses (list of 190, oom.py:13)``."""
    name: str
    """Its name, ``losses``; empty if unknown."""
    where: CodeLine | None
    bytes: int
    reachable: int
    """Bytes that Python can reach under this name; graphs hold the rest."""
    rate: Rate | None
    each: int | None
    """Bytes per item if no rate is known."""
    graphs: int
    training: bool
    carried: bool = False
    """True for a state carried from one iteration to the next, as opposed to a sum."""
    also: tuple[str, ...] = ()
    """Names of other tensors whose bytes are counted with it."""


def describe_site(grown: Grown) -> str:
    """Format the line of a growth: ``train (oom.py:15)``."""
    if grown.where is not None and grown.where.name not in ("", "<module>"):
        return f"{grown.where.name} ({format_line(grown.where)})"
    return grown.label


def describe_pace(leak: Leak) -> str:
    """Format the pace, `` grows by 32 MiB per step``, to stand right behind the subject.

    Without a known pace, the bytes held. Of several tensors, the number grows and not each one.
    """
    rate = leak.rate
    several = " of " in leak.name or len(leak.also) > 1
    if rate is None:
        clause = f"{'hold' if several else 'holds'} {round_size(leak.bytes)}"
        return f" {clause}{' and a graph for each' if leak.kind == 'graphs' else ''}"
    per = "" if rate.per == "s" else f" per {rate.per}"
    pace = f"{round_size(int(rate.rate))}{per or ' per second'}"
    if leak.subject[:1].isdigit():
        return f": {pace.replace(' per', ' more per')}"
    verb = "grow" if leak.kind == "unnamed" or several else "grows"
    return f" {verb} by {pace}"
