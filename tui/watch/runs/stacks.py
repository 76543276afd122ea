"""The positions of a watched process's threads: its agent's answer to ``stacks``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tui.snapshots.explain.inventory import ThreadStack
from workloads.protocol import wire


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    """The Python stacks of one process, all read at one moment."""

    identity: str
    pid: int
    steps: int
    """Number of optimizer steps."""
    threads: tuple[ThreadStack, ...]
    """The main thread first; C++ threads have no Python stack and are absent."""
    left_out: int = 0
    """Threads that did not fit into the answer."""


def parse_stacks(identity: str, data: Any) -> ProcessStacks:
    """Parse an agent's answer.

    Raises:
        WireError: the answer is malformed (a ``ValueError``); the message names the place.
    """
    if not isinstance(data, dict) or "threads" not in data:
        raise wire.WireError("stacks: the agent does not know this request")
    facts = {name: data.get(name, 0) for name in ("steps", "threads", "left_out")}
    pid = int(identity.split("-")[-2])
    plain = dict(facts, identity=identity, pid=pid)
    stacks: ProcessStacks = wire.from_plain(ProcessStacks, plain, "stacks")
    return stacks
