"""The lines that an agent writes into its run's folder; they are untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tui.snapshots.explain.frames import Frame
from tui.watch.runs.untrusted import UntrustedError, check_time, parse_as, parse_object


@dataclass(frozen=True, slots=True)
class BeginEvent:
    identity: str
    pid: int
    host: str
    rank: str | None
    torch: str
    at: float
    program: int = 1


@dataclass(frozen=True, slots=True)
class OomEvent:
    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"request": "asked"}

    oom: int
    happened: float
    step: int
    device: int
    request: int | None
    free: int | None
    limit: int | None
    allocated: int
    reserved: int
    thread: str | None
    where: str | None
    requested: int | None = None
    frames: tuple[Frame, ...] = ()
    snapshot_follows: bool = False
    """True if the agent then takes an inventory and writes a snapshot, or why it could not."""


@dataclass(frozen=True, slots=True)
class HandledEvent:
    oom: int


@dataclass(frozen=True, slots=True)
class SnapshotEvent:
    at: float
    oom: int | None
    name: str
    step: int = 0
    """The step at which a requested snapshot was written."""


@dataclass(frozen=True, slots=True)
class InventoryEvent:
    oom: int
    inventory: Any


@dataclass(frozen=True, slots=True)
class NoSnapshotEvent:
    oom: int
    text: str


@dataclass(frozen=True, slots=True)
class TroubleEvent:
    doing: str
    text: str


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    on: bool


@dataclass(frozen=True, slots=True)
class EndEvent:
    at: float
    steps: int
    ooms: int
    text: str
    type: str
    out_of_memory: bool


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """The most bytes that torch's allocator counted at a time on one device."""

    device: int
    requested: int | None
    allocated: int
    reserved: int
    recorded: bool = True
    """True if the snapshot's history has any event of the device."""


@dataclass(frozen=True, slots=True)
class StepReading:
    """The bytes on one device right after an optimizer step."""

    step: int
    device: int
    allocated: int
    peak: int
    """The most allocated bytes until then."""


@dataclass(frozen=True, slots=True)
class HostRead:
    """A line of the program at which the host waited for data of the device."""

    filename: str
    line: int
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class LibraryVersion:
    """A library that the process has imported."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class RehearsedEvent:
    """A rehearsal's measurement of one process."""

    at: float
    steps: int
    stopped: bool
    """True if the agent ended the process after the requested steps."""
    devices: tuple[DevicePeaks, ...]
    step_times: tuple[int, ...]
    """Microseconds since the epoch at the end of each of the first steps."""
    reads: tuple[HostRead, ...]
    snapshot: str | None
    """Name of the snapshot in the run's folder."""
    no_snapshot: str = ""
    """Why there is none."""
    compiled: bool = False
    """True if torch.compile has compiled a graph."""
    libraries: tuple[LibraryVersion, ...] = ()
    """Libraries that influence the memory of a training."""
    architectures: tuple[str, ...] = ()
    """For which torch's kernels were compiled, such as ``sm_90``."""
    step_memory: tuple[StepReading, ...] = ()
    """The memory after each of the steps, or of some of many."""


_EVENTS: dict[str, type[Any]] = {
    "begin": BeginEvent,
    "oom": OomEvent,
    "handled": HandledEvent,
    "snapshot": SnapshotEvent,
    "inventory": InventoryEvent,
    "no snapshot": NoSnapshotEvent,
    "trouble": TroubleEvent,
    "history": HistoryEvent,
    "end": EndEvent,
    "rehearsed": RehearsedEvent,
}


def parse_event(line: bytes) -> Any:
    """Parse one line; returns ``None`` for an event of a later version.

    Raises:
        UntrustedError: the line is not an agent's.
    """
    data = parse_object(line)
    kind = data.get("event")
    if not isinstance(kind, str):
        raise UntrustedError("no event")
    if kind not in _EVENTS:
        return None
    event = parse_as(_EVENTS[kind], data, kind)
    for name in ("at", "happened"):
        if hasattr(event, name):
            check_time(getattr(event, name))
    return event
