"""What is kept of a run or a comparison, and of what it was measured on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from tui.state.conditions import Conditions
from workloads.protocol import wire
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Setting
from workloads.protocol.results import Comparison, RunResult, Status

Kind = Literal["run", "comparison"]
ID_LENGTH = 16
"""Hexadecimal digits of an id; the first few that no other result has are enough to name one."""


@frozen
class Facts:
    """All that a figure depends on beside the workload: the same facts have the same hash."""

    values: dict[str, str]
    """By their names, in :data:`tui.results.environment.ORDER`."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Why a fact that matters is not known, by its name."""

    @property
    def hash(self) -> str:
        """What the facts are stored under."""
        return digest([sorted(self.values.items()), sorted(self.unknown)])


@frozen
class Record:
    """One run or one comparison as it is kept."""

    id: str
    kind: Kind
    at: float
    """Unix time at which it ended."""
    process: str
    """Of the runner that measured it: what is the same came from one process."""
    sweep: str
    """Runs of one sweep have the same; empty for others."""
    workload: str
    device: str
    """In torch's words."""
    parameters: dict[str, Setting]
    """As they were used."""
    status: Status
    reason: str | None
    budget: str
    """How long it was to be timed; empty where that is not known."""
    conditions: Conditions | None
    run: RunResult | None = None
    comparison: Comparison | None = None

    @property
    def median_s(self) -> float | None:
        """Seconds per call; ``None`` of a comparison and of a run without a time."""
        return self.run.time.median_s if self.run is not None and self.run.time else None

    @property
    def ci95_s(self) -> tuple[float, float] | None:
        """Of the median within this run: of its blocks, not from run to run."""
        return self.run.time.ci95_s if self.run is not None and self.run.time else None

    @property
    def marks(self) -> tuple[str, ...]:
        """What there is to say against it, a line each: it is compared all the same."""
        found = self.run or self.comparison
        seen = self.conditions.warnings if self.conditions else ()
        return tuple(dict.fromkeys((*seen, *(found.warnings if found else ()))))


@frozen
class Kept:
    """A record with what it was measured on: what goes into the store and into a file."""

    record: Record
    facts: Facts
    tags: tuple[str, ...] = ()


@frozen
class Row:
    """What lists and comparisons need of a record; its body stays where it is."""

    number: int
    """In the store; the newest that was put in has the highest."""
    id: str
    kind: Kind
    at: float
    process: str
    workload: str
    device: str
    parameters: str
    """As :func:`canonical` text, so that it can be compared as it is."""
    status: Status
    median_s: float | None
    ci95_s: tuple[float, float] | None
    environment: str
    """The hash of its facts."""
    marks: tuple[str, ...]
    said: str
    """Of a comparison its outcome, of a run without a time the reason."""
    clock_mhz: float | None
    """Median clock of the GPU's multiprocessors meanwhile; ``None`` where it was not sampled."""
    limits: tuple[str, ...]
    """What held the clocks down meanwhile, in NVML's words, harmful or not."""


def row_of(kept: Kept, said: str = "", number: int = 0) -> Row:
    """A record as lists and comparisons need it.

    Args:
        kept: the record.
        said: its outcome, where it has no time of its own.
        number: in the store; 0 of one that is not there.
    """
    record, seen = kept.record, kept.record.conditions
    return Row(
        number=number,
        id=record.id,
        kind=record.kind,
        at=record.at,
        process=record.process,
        workload=record.workload,
        device=record.device,
        parameters=canonical(record.parameters),
        status=record.status,
        median_s=record.median_s,
        ci95_s=record.ci95_s,
        environment=kept.facts.hash,
        marks=record.marks,
        said=said,
        clock_mhz=seen.sm_clock_mhz_median if seen else None,
        limits=seen.throttle if seen else (),
    )


def canonical(value: object) -> str:
    """JSON that is the same text for the same value, whatever the order of its names."""
    plain = wire.to_plain(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """The first digits of the SHA-256 of a value's canonical text."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:ID_LENGTH]


def id_of(result: RunResult | Comparison, at: float) -> str:
    """What names a result on whichever box it is kept.

    It is made of what was measured and when, so that a result that comes in by two ways, from the
    program and from what it printed, is the same.

    Args:
        result: of the runner.
        at: Unix time at which it ended, for one that measured nothing.
    """
    told: Mapping[str, Any]
    if isinstance(result, RunResult):
        blocks = result.time.block_times_s if result.time else ()
        when = (result.started_at, result.ended_at) if result.ended_at else (at,)
        told = {"flags": result.flags, "blocks": blocks, "when": when}
    else:
        when = result.measured[0] if result.measured else (at,)
        told = {"flag": result.flag, "pairs": result.pair_ratios, "when": when}
    return digest([result.workload, result.device, result.parameters, result.status, told])
