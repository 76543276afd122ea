"""Events that change the state of the runs, in addition to the runner's messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Union

from tui.core.events import RunnerStatus
from tui.runs.state.parameters import Sweep
from tui.runs.state.runs import Against, Conditions, EarlierResult
from workloads.protocol import messages
from workloads.protocol.results import Ceiling, Setting, WorkloadInfo


@dataclass(frozen=True, slots=True)
class CatalogueRead:
    """The workloads that our own package declares, before the runner reports them."""

    workloads: tuple[WorkloadInfo, ...]


@dataclass(frozen=True, slots=True)
class ParametersSet:
    """The user set all parameters of a workload."""

    workload: str
    parameters: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class SweepSet:
    """The user set several settings of a workload, to be run one after the other."""

    workload: str
    sweep: Sweep


@dataclass(frozen=True, slots=True)
class FlagSet:
    """The user switched a backend flag."""

    name: str
    value: bool


@dataclass(frozen=True, slots=True)
class RunQueued:
    """A run was requested."""

    request: messages.Run
    demo: bool = False
    """True if a page of the presentation requested the run, not the user."""


@dataclass(frozen=True, slots=True)
class CompareQueued:
    """A comparison was requested."""

    request: messages.Compare


@dataclass(frozen=True, slots=True)
class ConditionsRecorded:
    """The conditions of a run or a comparison."""

    WIRE_TAG: ClassVar[str] = "conditions_seen"

    run_id: str
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class CeilingsRead:
    """The ceilings of this host that earlier runners measured."""

    ceilings: tuple[Ceiling, ...]


@dataclass(frozen=True, slots=True)
class EarlierRead:
    """The stored results of earlier sessions on the machine of these runs."""

    at: float
    """Unix time of reading."""
    results: tuple[EarlierResult, ...]


@dataclass(frozen=True, slots=True)
class ComparedWithEarlier:
    """A run of this session compared with stored results of earlier ones."""

    WIRE_TAG: ClassVar[str] = "held_against"

    run_id: str
    against: Against


RunEvent = Union[
    CatalogueRead,
    ParametersSet,
    SweepSet,
    FlagSet,
    RunQueued,
    CompareQueued,
    ConditionsRecorded,
    CeilingsRead,
    EarlierRead,
    ComparedWithEarlier,
]
RunsOfHostEvent = Union[RunnerStatus, messages.Event, RunEvent]


@dataclass(frozen=True, slots=True)
class HostRunEvent:
    """An event of the runs on another host, which changes the state of that host alone."""

    host: str
    event: RunsOfHostEvent
