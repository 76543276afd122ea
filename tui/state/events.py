"""What changes the store beside what the children say, and the parts that events change."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Union

from tui.devices.monitor.messages import MonitorEvent
from tui.runs.state.parameters import Sweep
from tui.runs.state.runs import Against, Conditions, EarlierResult
from workloads.protocol import messages
from workloads.protocol.results import Ceiling, Setting, WorkloadInfo

if TYPE_CHECKING:
    # Imported where the watch runs: it has no part in a start.
    from tui.devices.allocators.messages import WatchEvent


@dataclass(frozen=True, slots=True)
class CatalogueRead:
    """The workloads as our own package declares them, before the runner says the same."""

    workloads: tuple[WorkloadInfo, ...]


@dataclass(frozen=True, slots=True)
class DeviceSelected:
    key: str


@dataclass(frozen=True, slots=True)
class ParametersSet:
    workload: str
    parameters: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class SweepSet:
    """Several settings of a workload, to be run one after the other."""

    workload: str
    sweep: Sweep


@dataclass(frozen=True, slots=True)
class FlagSet:
    name: str
    value: bool


@dataclass(frozen=True, slots=True)
class PeaksReset:
    """The sampled peaks of a device start anew."""

    key: str


@dataclass(frozen=True, slots=True)
class RunQueued:
    request: messages.Run
    demo: bool = False
    """Asked for by the demo, not by the user."""


@dataclass(frozen=True, slots=True)
class CompareQueued:
    request: messages.Compare


ChildStatus = Literal["starting", "importing torch", "ready", "unusable", "restarting", "ended"]


@dataclass(frozen=True, slots=True)
class RunnerStatus:
    """The runner as a process: what it is doing and, where it is not well, why and what to do."""

    status: ChildStatus
    reason: str = ""
    advice: str = ""
    report: str | None = None
    """Path of the saved crash report."""

    @property
    def silence(self) -> str:
        """For how long who has said nothing, while all that is known else is that it is ready."""
        return self.reason.partition(":")[0] if self.status == "ready" else ""


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    status: ChildStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """The watch as a process."""

    status: ChildStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConditionsSeen:
    """What a run or a comparison was measured under."""

    run_id: str
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class CeilingsRead:
    """The ceilings of this host that earlier runners have measured."""

    ceilings: tuple[Ceiling, ...]


@dataclass(frozen=True, slots=True)
class EarlierRead:
    """What was kept of earlier sessions on this box."""

    at: float
    """Unix time at which it was read."""
    results: tuple[EarlierResult, ...]


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """A run of this session beside what was kept of earlier ones."""

    run_id: str
    against: Against


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line for the log pane."""

    source: Literal["runner", "monitor", "watch", "workbench"]
    text: str
    level: Literal["info", "warning", "error"] = "info"


LocalEvent = Union[
    CatalogueRead,
    DeviceSelected,
    ParametersSet,
    SweepSet,
    FlagSet,
    PeaksReset,
    RunQueued,
    CompareQueued,
    RunnerStatus,
    MonitorStatus,
    WatchStatus,
    ConditionsSeen,
    CeilingsRead,
    EarlierRead,
    HeldAgainst,
    LogLine,
]
AnyEvent = Union[LocalEvent, messages.Event, MonitorEvent, "WatchEvent"]


class Topic(enum.Enum):
    """A part of the store that some pane shows."""

    DEVICES = "devices"
    SELECTION = "selection"
    MEMORY = "memory"
    WORKLOADS = "workloads"
    BACKEND = "backend"
    RUNNER = "runner"
    ALLOCATORS = "allocators"
    """Those of other processes."""
    LOG = "log"


Topics = frozenset[Topic]
"""Those that one event changed."""
