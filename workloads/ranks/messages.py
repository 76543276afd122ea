"""What the worker and its ranks tell each other. No torch."""

from __future__ import annotations

from workloads.protocol.frozen import frozen
from workloads.protocol.messages import Finished, Measured, Progress, Run


@frozen
class Order:
    """What every rank is to run; the worker leaves it in the folder that it shares with them."""

    request: Run
    source: str
    """File that declares the workload; empty for one of the catalogue."""


@frozen
class Joined:
    """A rank has met the others."""

    rank: int
    world: int
    pid: int
    host: str
    backend: str
    threads: int
    """Of torch in this rank."""
    device: str
    """That it runs on."""


KINDS = (Joined, Progress, Measured, Finished)
