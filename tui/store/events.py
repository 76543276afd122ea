"""What the front end itself did or saw, as events for the store beside the children's."""

from __future__ import annotations

from typing import Literal, Union

from tui.devices.messages import MonitorEvent
from tui.store.conditions import Conditions
from tui.sweeps.sweep import Sweep
from workloads import protocol
from workloads.fact import fact
from workloads.inventory import Setting, WorkloadInfo


@fact
class CatalogueRead:
    """The workloads as our own package declares them, before the runner says the same."""

    workloads: tuple[WorkloadInfo, ...]


@fact
class DeviceSelected:
    key: str


@fact
class ParametersSet:
    workload: str
    parameters: dict[str, Setting]


@fact
class SweepSet:
    """Several settings of a workload, to be run one after the other."""

    workload: str
    sweep: Sweep


@fact
class FlagSet:
    name: str
    value: bool


@fact
class PeaksReset:
    """The sampled peaks of a device start anew."""

    key: str


@fact
class RunQueued:
    request: protocol.Run
    demo: bool = False
    """Asked for by the demo, not by the user."""


@fact
class CompareQueued:
    request: protocol.Compare


ChildStatus = Literal["starting", "importing torch", "ready", "unusable", "restarting", "ended"]


@fact
class RunnerStatus:
    """The runner as a process: what it is doing and, where it is not well, why and what to do."""

    status: ChildStatus
    reason: str = ""
    advice: str = ""
    report: str | None = None
    """Path of the saved crash report."""


@fact
class MonitorStatus:
    status: ChildStatus
    reason: str = ""


@fact
class ConditionsSeen:
    """What a run or a comparison was measured under."""

    run_id: str
    conditions: Conditions


@fact
class LogLine:
    """A line for the log pane."""

    source: Literal["runner", "monitor", "workbench"]
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
    ConditionsSeen,
    LogLine,
]
AnyEvent = Union[LocalEvent, protocol.Event, MonitorEvent]
