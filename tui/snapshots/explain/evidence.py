"""What is known of one failed allocation, from a snapshot, an inventory, a text and a watch.

Any of the sources may be missing. Sizes are bytes; ``None`` is not known, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui.snapshots.explain.inventory import (
    CodeLine,
    Container,
    Inventory,
    StepMemory,
    ThreadStack,
    Variable,
)

Per = Literal["step", "iteration", "s"]


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast memory grows, with the bounds of its 95 % interval, in bytes."""

    rate: float
    low: float
    high: float
    per: Per
    source: str
    """What measured it, in a few words."""
    span: float = 0.0
    """Steps, iterations or seconds that it was measured over; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Another process that holds memory of the device."""

    pid: int
    bytes: int
    user: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a watch knows besides the snapshot and the exception's text."""

    watched: bool = False
    """The program ran under the watch."""
    recorded: bool = False
    """With torch's memory history switched on."""
    growth: Rate | None = None
    """Of allocated, as measured from outside."""
    holders: tuple[Holder, ...] = ()
    """Other processes on the device, as NVML lists them."""
    known: tuple[Holder, ...] = ()
    """All processes on any device, as NVML has listed them last: whose pid is whose."""
    process: int | None = None
    """What NVML says this process holds of the device."""
    total: int | None = None
    """What NVML says the device has."""
    source: str = ""
    """The text of the user's own line that asked; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class KnownOfSnapshot:
    """What the folder of a run tells of a snapshot that the run wrote."""

    text: str
    """Of the exception."""
    circumstances: Circumstances


@dataclass(frozen=True, slots=True)
class Purpose:
    """What live allocations are for, as their stacks tell."""

    name: str
    bytes: int
    site: str = ""
    """The line that made the most of them."""
    site_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Grown:
    """Memory that one line of the program kept allocating, as a history tells."""

    where: CodeLine | None
    label: str
    bytes: int
    """Net growth since it began."""
    count: int
    """Of allocations that are live."""
    repeats: int
    """Times that the line ran while it grew."""
    by_size: bool
    """It replaces one allocation by a larger one, as ``torch.cat`` does."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known of one failed allocation."""

    device: int
    asked: int
    needed: int
    """What the driver was asked for on behalf of the request."""
    allocated: int
    """Blocks in use, rounding included."""
    rounding: int | None
    """What these blocks are larger than asked for."""
    reserved: int
    step: int | None = None
    """Optimizer steps until then."""
    free: int | None = None
    """Of the device."""
    total: int | None = None
    """Of the device."""
    allowed: int | None = None
    """What ``set_per_process_memory_fraction`` allows."""
    pending: int = 0
    """The part of ``allocated`` that was freed and that a stream still uses."""
    stuck: int | None = None
    """Cached in pieces of the kind that was asked for; ``None`` where the pieces are not known."""
    largest: int | None = None
    """The longest such piece."""
    streams_cached: int = 0
    """Cached for other streams."""
    graphs_cached: int = 0
    """Free in private pools of CUDA graphs."""
    pools_cached: int = 0
    """Free in private pools of ``torch.cuda.MemPool``."""
    private_cached: int = 0
    """Free in private pools of which it is not known whose they are."""
    process: int | None = None
    """What this process holds of the device, in torch and outside."""
    others: int | None = None
    """What other processes hold of the device."""
    others_least: int = 0
    """What others hold at least, as another moment of the same trace tells."""
    holders: tuple[Holder, ...] = ()
    stack: tuple[CodeLine, ...] = ()
    """That asked, innermost first."""
    threads: tuple[ThreadStack, ...] = ()
    thread: str | None = "main"
    """That asked: ``main``, a name, ``None`` for one of torch's own."""
    inventory: Inventory | None = None
    purposes: tuple[Purpose, ...] = ()
    """Of all live allocations, from a history; empty where there is none."""
    grown: Grown | None = None
    rate: Rate | None = None
    """Growth of allocated per step, as the watch measured it."""
    largest_block: int | None = None
    """The largest live allocation, in bytes that were asked for."""
    largest_site: str = ""
    half_block: str = ""
    """The line of a live block of exactly half of what was asked for."""
    half_block_is_narrow: bool = False
    """That block is a named tensor of a 16-bit type."""
    settings: tuple[tuple[str, str], ...] = ()
    """Of the allocator."""
    expandable: bool | None = None
    expandable_setting: str = "PYTORCH_ALLOC_CONF=expandable_segments:True"
    """What to set for it, by the name that this torch knows."""
    address_space: bool = False
    text: bool = False
    """There is a text of the exception, which tells of a limit that was set."""
    watched: bool = False
    recorded: bool = False
    history: bool = False
    """There is a history of allocations."""
    source: str = ""
    """The text of the user's own line that asked."""

    @property
    def steps(self) -> tuple[StepMemory, ...]:
        """What was allocated after the optimizer's steps."""
        return () if self.inventory is None else self.inventory.steps

    @property
    def named(self) -> list[Container | Variable]:
        """Containers and variables of the inventory, most bytes first."""
        found: list[Container | Variable] = []
        if self.inventory is not None:
            found += self.inventory.containers
            found += self.inventory.variables
        return sorted(found, key=lambda each: -each.bytes)

    @property
    def shortfall(self) -> int:
        """What lacked of the device's free memory."""
        return self.needed if self.free is None else max(1, self.needed - self.free)

    @property
    def cached(self) -> int:
        """Reserved and not in use."""
        return max(0, self.reserved - self.allocated)
