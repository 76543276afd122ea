"""The events of other machines: which there are, a sample of one, and why one is not connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tui.allocators.messages import AgentLogPart, ProcessFigures, StepsCounted, TorchProcesses
from tui.monitor.messages import Sample


@dataclass(frozen=True, slots=True)
class HostsNamed:
    """The hosts that the session connects to."""

    names: tuple[str, ...]
    """In the order in which the user named them."""
    here: bool
    """The session also shows this machine."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """The devices of a host at one moment."""

    host: str
    sample: Sample
    round_trip_s: float | None
    """Of the newest keep-alive; ``None`` until one was answered."""
    at: float = 0.0
    """Unix time of this machine at which the sample arrived; its own times are the host's."""


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host that is not connected, for a reason that names what to do."""

    host: str
    reason: str
    retry_s: float
    """Seconds until the next attempt."""
    at: float = 0.0
    """Unix time of this machine at which the connection was lost or failed."""


@dataclass(frozen=True, slots=True)
class HostTorch:
    """The torch processes of a host, what their allocators hold, or their steps."""

    host: str
    processes: TorchProcesses | None = None
    figures: ProcessFigures | None = None
    steps: StepsCounted | None = None
    log: AgentLogPart | None = None
    """What the agent of a process with an OOM has written."""
    lost: str = ""
    """Why they are not read at present; empty while they are."""


HostEvent = Union[HostSample, HostLost]
AnyHostEvent = Union[HostsNamed, HostSample, HostLost, HostTorch]
