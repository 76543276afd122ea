"""What the agents of a run have left in its folder: steps, OOMs, and how each process ended."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from workloads.protocol.frozen import frozen

MOST_BYTES = 64 << 20
"""Of a process's file; what is beyond is not read."""
FROM_EXCEPTION = "the exception that ended the process"
REBUILT = "written anew from the numbers that torch gave the observer"
_NOT_SEEN = "it was killed, or left by os._exit: nothing tells whether it went on"


@frozen
class Oom:
    """One allocation that torch could not make."""

    number: int
    at: float
    """Unix time."""
    step: int
    """Steps of all optimizers until then."""
    device: int
    """As the process counts them."""
    asked: int
    free: int
    """Bytes of the device, as the driver said."""
    limit: int
    """Bytes of the device in all, or what torch was allowed of it."""
    allocated: int
    reserved: int
    thread: str | None
    """``main``, a name, or ``None`` for one of torch's own, such as autograd's."""
    where: str | None = None
    """File and line of the Python that asked."""
    handled: bool | None = None
    """Whether the program went on."""
    why_not_known: str = ""
    text: str = ""
    text_source: str = REBUILT
    snapshot: Path | None = None
    why_no_snapshot: str = ""


@frozen
class Taken:
    """A snapshot that was asked for."""

    at: float
    """Unix time at which it was written."""
    step: int
    path: Path


@frozen
class Left:
    """One process."""

    identity: str
    pid: int
    host: str
    rank: str | None
    torch: str
    began: float
    """When it first used CUDA."""
    steps: int | None = None
    """``None`` where it has not said: it goes on, or was killed."""
    ended: bool = False
    """Whether the interpreter came to its end."""
    text: str = ""
    """Of the exception that ended it."""
    kind: str = ""
    """Its class."""
    records: bool = False
    """Whether the agent has switched torch's memory history on at some time."""
    ooms: tuple[Oom, ...] = ()
    oom_count: int = 0
    """More than have a record each, where there were very many."""
    snapshots: tuple[Taken, ...] = ()
    """Those that were asked for and are there."""
    troubles: tuple[str, ...] = field(default=())
    """What the agent could not do."""


def left_in(folder: Path) -> list[Left]:
    """What each process has left, in the order in which they began."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        with contextlib.suppress(OSError):
            with path.open("rb") as file:
                first = _parsed(file.readline(MOST_BYTES))
                if first.get("event") != "begin":
                    continue  # not an agent's
                lines = file.read(MOST_BYTES).split(b"\n")
            with contextlib.suppress(KeyError):  # broken off, or not of ours
                found.append(_read(folder, first, lines))
    return sorted(found, key=lambda left: left.began)


def troubles_in(folder: Path) -> list[str]:
    """Why there is no agent in some process."""
    try:
        text = (folder / "agent-errors.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[:8]


def _read(folder: Path, first: dict[str, Any], lines: Sequence[bytes]) -> Left:
    """One process.

    Raises:
        KeyError: its first line is not whole.
    """
    reading = _Reading(folder, first)
    for line in lines:
        event = _parsed(line)
        # A line may have been broken off where the process was killed.
        with contextlib.suppress(KeyError, TypeError):
            reading.take(event.get("event", ""), event)
    return reading.result()


def _parsed(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        return event if isinstance(event, dict) else {}
    return {}


class _Reading:
    """The lines of one process, one after the other."""

    def __init__(self, folder: Path, first: dict[str, Any]) -> None:
        names = ("identity", "pid", "host", "rank", "torch")
        self._left = Left(began=first["at"], **{name: first[name] for name in names})
        self._folder = folder
        self._ooms: dict[int, Oom] = {}
        self._ran_out = False
        """The process was ended by an OOM."""

    def take(self, kind: str, event: dict[str, Any]) -> None:
        """One line; what is not known is of a later version.

        Raises:
            KeyError, TypeError: it is not whole.
        """
        oom = self._ooms.get(event.get("oom") or 0)
        left = self._left
        if kind == "oom":
            self._ooms[event["oom"]] = _oom(event)
        elif oom is not None:
            self._ooms[oom.number] = self._more_of(oom, kind, event)
        elif kind == "snapshot":
            taken = Taken(event["at"], event["step"], self._folder / event["name"])
            if taken.path.exists():
                self._left = replace(left, snapshots=(*left.snapshots, taken))
        elif kind == "trouble":
            trouble = f"{event['doing']}: {event['text']}"
            self._left = replace(left, troubles=(*left.troubles, trouble))
        elif kind == "history":
            self._left = replace(left, records=True)
        elif kind == "end":
            self._ran_out = event["out_of_memory"]
            names = {"steps": "steps", "text": "text", "kind": "type", "oom_count": "ooms"}
            facts = {name: event[key] for name, key in names.items()}
            self._left = replace(left, ended=True, **facts)

    def _more_of(self, oom: Oom, kind: str, event: dict[str, Any]) -> Oom:
        if kind == "handled":
            return replace(oom, handled=True, why_not_known="")
        if kind == "no snapshot":
            return replace(oom, why_no_snapshot=event["text"])
        if kind != "snapshot":
            return oom
        path = self._folder / event["name"]
        if path.exists():
            return replace(oom, snapshot=path, why_no_snapshot="")
        return replace(oom, why_no_snapshot="a later OOM's has taken its place")

    def result(self) -> Left:
        """The process, once all lines were taken."""
        ooms = tuple(_judged(oom, self._left, self._ran_out) for oom in self._ooms.values())
        count = max(self._left.oom_count, max(self._ooms, default=0))
        return replace(self._left, ooms=ooms, oom_count=count)


def _oom(event: dict[str, Any]) -> Oom:
    names = ("step", "device", "asked", "free", "limit", "allocated", "reserved", "thread", "where")
    facts = {name: event[name] for name in names}
    oom = Oom(number=event["oom"], at=event["happened"], **facts)
    return replace(
        oom,
        text=rebuilt_text(oom),
        why_no_snapshot="OOMs came so fast that not each was given a snapshot",
        why_not_known=_NOT_SEEN,
    )


def _judged(oom: Oom, left: Left, of_last: bool) -> Oom:
    """Whether an OOM that no step or OOM of its thread followed has ended the process."""
    if oom.handled or not left.ended:
        return oom
    if of_last and _asked_words(oom) in left.text:
        return replace(
            oom, handled=False, why_not_known="", text=left.text, text_source=FROM_EXCEPTION
        )
    if oom.thread == "main":
        # The thread that was refused came to the program's end without this exception.
        return replace(oom, handled=True, why_not_known="")
    return replace(
        oom, why_not_known="a thread that was not the main one asked, and no step came after"
    )


def rebuilt_text(oom: Oom) -> str:
    """The exception's text as far as the observer's numbers tell it, in torch's words."""
    unallocated = max(0, oom.reserved - oom.allocated)
    return (
        f"CUDA out of memory. {_asked_words(oom)} GPU {oom.device} has a total capacity of "
        f"{_size(oom.limit)} of which {_size(oom.free)} is free. Of the allocated memory "
        f"{_size(oom.allocated)} is allocated by PyTorch, and {_size(unallocated)} is reserved by "
        "PyTorch but unallocated."
    )


def _asked_words(oom: Oom) -> str:
    return f"Tried to allocate {_size(oom.asked)}."


def _size(size: int) -> str:
    """As ``format_size`` of torch's ``CUDACachingAllocator.cpp`` words it."""
    if size <= 1024:
        return f"{size} bytes"
    for power, unit in ((1, "KiB"), (2, "MiB")):
        if size <= 1024 ** (power + 1):
            return f"{size / 1024**power:.2f} {unit}"
    return f"{size / 1024**3:.2f} GiB"
