"""What changes the store beside what the children say, and the parts that events change."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Literal, Union

from tui.devices.monitor.messages import MonitorEvent
from tui.runs.state.parameters import Sweep
from tui.runs.state.runs import Against, Conditions, EarlierResult
from workloads.protocol import messages
from workloads.protocol.frozen import frozen
from workloads.protocol.results import Ceiling, Setting, WorkloadInfo

if TYPE_CHECKING:
    # Imported where the watch runs: it has no part in a start.
    from tui.devices.allocators.messages import WatchEvent


@frozen
class CatalogueRead:
    """The workloads as our own package declares them, before the runner says the same."""

    workloads: tuple[WorkloadInfo, ...]


@frozen
class DeviceSelected:
    key: str


@frozen
class ParametersSet:
    workload: str
    parameters: dict[str, Setting]


@frozen
class SweepSet:
    """Several settings of a workload, to be run one after the other."""

    workload: str
    sweep: Sweep


@frozen
class FlagSet:
    name: str
    value: bool


@frozen
class PeaksReset:
    """The sampled peaks of a device start anew."""

    key: str


@frozen
class RunQueued:
    request: messages.Run
    demo: bool = False
    """Asked for by the demo, not by the user."""


@frozen
class CompareQueued:
    request: messages.Compare


ChildStatus = Literal["starting", "importing torch", "ready", "unusable", "restarting", "ended"]


@frozen
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


@frozen
class MonitorStatus:
    status: ChildStatus
    reason: str = ""


@frozen
class WatchStatus:
    """The watch as a process."""

    status: ChildStatus
    reason: str = ""


@frozen
class ConditionsSeen:
    """What a run or a comparison was measured under."""

    run_id: str
    conditions: Conditions


@frozen
class CeilingsRead:
    """The ceilings of this host that earlier runners have measured."""

    ceilings: tuple[Ceiling, ...]


@frozen
class EarlierRead:
    """What was kept of earlier sessions on this box."""

    at: float
    """Unix time at which it was read."""
    results: tuple[EarlierResult, ...]


@frozen
class HeldAgainst:
    """A run of this session beside what was kept of earlier ones."""

    run_id: str
    against: Against


@frozen
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
