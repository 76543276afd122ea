"""The evidence on one failed allocation, from a snapshot, an inventory, a text and a watch.

Any of the sources may be missing. Sizes are bytes; ``None`` means unknown, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui.allocators.growth import GrowthRate
from tui.snapshots.explain.frames import Frame, FrameKind
from tui.snapshots.explain.inventory import (
    Container,
    Inventory,
    StepMemory,
    ThreadStack,
    Variable,
    find_main_stack,
)
from tui.snapshots.explain.source_lines import SourceLine

Per = Literal["step", "iteration", "s"]


@dataclass(frozen=True, slots=True)
class Rate:
    """The growth rate of memory in bytes, with the bounds of its 95% interval."""

    rate: float
    low: float
    high: float
    per: Per
    source: str
    """Short description of the measurement's origin."""
    span: float = 0.0
    """Number of steps, iterations or seconds measured; 0 if unknown."""

    @classmethod
    def of_growth(cls, growth: GrowthRate, per: Per, source: str) -> Rate:
        """Return the rate of a measured growth.

        Args:
            growth: in bytes per ``per``.
            per: its unit of steps or of time.
            source: where the measurement comes from.
        """
        return cls(growth.rate, growth.low, growth.high, per, source, growth.span)


@dataclass(frozen=True, slots=True)
class Holder:
    """Another process that uses memory on the device."""

    pid: int
    bytes: int
    user: str = ""
    command: str = ""

    def shorten_command(self, length: int = 60) -> str:
        """Return the start of its command in one line: ``python -c`` may have several."""
        return " ".join(self.command.split())[:length].rstrip()

    def describe(self) -> str:
        """Format the process: ``process 4711 bob python train.py``."""
        return " ".join(filter(None, [f"process {self.pid}", self.user, self.shorten_command()]))


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts from a watch that neither the snapshot nor the exception's text contains."""

    watched: bool = False
    """True if the program ran under the watch."""
    recorded: bool = False
    """True if torch's memory history was on."""
    growth: Rate | None = None
    """Growth of the allocated bytes, measured from outside."""
    holders: tuple[Holder, ...] = ()
    """Other processes on the device, as listed by NVML."""
    known: tuple[Holder, ...] = ()
    """All processes on any device in NVML's latest list, to identify pids."""
    process: int | None = None
    """Bytes that this process uses on the device, according to NVML."""
    total: int | None = None
    """Total bytes of the device, according to NVML."""
    source: str = ""
    """Text of the user's line that made the request; empty if unknown."""
    lines: tuple[SourceLine, ...] = ()
    """Lines of the program that compute or collect tensors of the inventory."""


@dataclass(frozen=True, slots=True)
class OomContext:
    """Facts about a snapshot from the folder of the run that wrote it."""

    text: str
    """Text of the exception."""
    circumstances: Circumstances


@dataclass(frozen=True, slots=True)
class Purpose:
    """Live allocations of one purpose, classified by their stacks."""

    name: str
    bytes: int
    site: str = ""
    """The program line with most of these bytes."""
    site_bytes: int = 0
    older: int = 0
    """Bytes allocated before the first recorded event; 0 if no allocation was recorded."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A line that kept allocating, found in a history: the minimum of its net bytes rises steadily.

    It may replace one allocation by a larger one, as ``torch.cat`` does.
    """

    where: Frame | None
    """The line; ``None`` if no Python frame was recorded."""
    label: str
    net: int
    """Net growth in bytes of all growing lines in its function, since it began."""
    count: int
    """Number of its live allocations."""
    repeats: int
    """Estimated number of loop iterations meanwhile, derived from one line of the loop."""
    replaced: bool
    """True if one allocation is repeatedly replaced by a larger one."""
    lengthening: int = 0
    """Bytes by which its allocations grow at each replacement, if their sizes show it; else 0."""
    fills: bool = False
    """True if nothing else was allocated meanwhile, as when a loop fills a cache or loads data."""
    keeps_passes: bool = False
    """True if it keeps tensors of several forward passes, and no backward pass has followed."""
    kind: FrameKind | None = None
    live: int = 0
    """Bytes of its live allocations."""
    freed: int = 0
    """Number of freed allocations of the same line."""
    first: int = 0
    """The event of the oldest live allocation."""
    event: int = 0
    """The event after which the allocations are counted."""
    seconds: float | None = None
    """Seconds from the oldest allocation to that event; ``None`` if the file has no times."""

    @property
    def per_event(self) -> int:
        """Average growth in bytes per event of the trace."""
        return self.live // max(1, self.event - self.first)

    @property
    def per_iteration(self) -> int:
        """Growth in bytes at each repetition."""
        return self.lengthening or self.net // max(1, self.repeats)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All known facts about one failed allocation."""

    device: int
    requested: int
    needed: int
    """Bytes that torch requested from the driver for this allocation."""
    allocated: int
    """Bytes of the blocks in use, including rounding."""
    rounding: int | None
    """Excess of these blocks over the requested bytes."""
    reserved: int
    step: int | None = None
    """Number of optimizer steps before the failure."""
    free: int | None = None
    """Free bytes of the device."""
    total: int | None = None
    """Total bytes of the device, without those that its driver reserves."""
    gpu_total: int | None = None
    """Total bytes of the device with them, according to NVML."""
    allowed: int | None = None
    """The limit of ``set_per_process_memory_fraction`` in bytes."""
    pending: int = 0
    """The part of ``allocated`` that was freed but is still in use by a stream."""
    stuck: int | None = None
    """Cached bytes in pieces beside live blocks; ``None`` if the pieces are unknown."""
    largest: int | None = None
    """Size of the largest piece that could serve such a request."""
    streams_cached: int = 0
    """Bytes cached for other streams."""
    graphs_cached: int = 0
    """Free bytes in private pools of CUDA graphs."""
    pools_cached: int = 0
    """Free bytes in private pools of ``torch.cuda.MemPool``."""
    private_cached: int = 0
    """Free bytes in private pools of unknown owner."""
    process: int | None = None
    """Bytes that this process uses on the device, inside and outside torch."""
    others: int | None = None
    """Bytes that other processes use on the device."""
    others_least: int = 0
    """Lower bound of ``others``, derived from another moment of the same trace."""
    holders: tuple[Holder, ...] = ()
    stack: tuple[Frame, ...] = ()
    """Stack of the request, innermost first."""
    threads: tuple[ThreadStack, ...] = ()
    thread: str | None = "main"
    """Thread of the request: ``main``, a name, or ``None`` for one of torch's own threads."""
    inventory: Inventory | None = None
    purposes: tuple[Purpose, ...] = ()
    """Purposes of all live allocations, from a history; empty without a history."""
    models: int = 0
    """Number of models that a history shows, each made and trained after another; 0 if unknown."""
    growth: Growth | None = None
    rate: Rate | None = None
    """Growth of the allocated bytes per step, measured by the watch."""
    half_block: str = ""
    """The program line of a live block exactly half as large as the request."""
    half_block_is_narrow: bool = False
    """True if that block is a named tensor of a 16-bit type."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of the allocator."""
    expandable: bool | None = None
    expandable_setting: str = "PYTORCH_ALLOC_CONF=expandable_segments:True"
    """The setting that enables expandable segments, under the name that this torch version uses."""
    address_space: bool = False
    text: bool = False
    """True if the exception's text is available; it names a limit if one was set."""
    watched: bool = False
    recorded: bool = False
    history: bool = False
    """True if a history of allocations is available."""
    source: str = ""
    """Text of the user's line that made the request."""
    lines: tuple[SourceLine, ...] = ()
    """Lines of the program that compute or collect tensors of the inventory."""

    @property
    def stacks(self) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
        """The stack of the request and that of the main thread, each possibly empty."""
        return self.stack, find_main_stack(self.threads)

    @property
    def kept_passes(self) -> Growth | None:
        """A growth of activations in a history that no backward pass has followed yet."""
        return self.growth if self.growth is not None and self.growth.keeps_passes else None

    @property
    def steps(self) -> tuple[StepMemory, ...]:
        """Allocated bytes after each recorded optimizer step."""
        return () if self.inventory is None else self.inventory.steps

    @property
    def named(self) -> list[Container | Variable]:
        """Containers and variables of the inventory, largest first."""
        named: list[Container | Variable] = []
        if self.inventory is not None:
            named += self.inventory.containers
            named += self.inventory.variables
        return sorted(named, key=lambda variable: -variable.bytes)

    @property
    def shortfall(self) -> int:
        """Bytes missing from the device's free memory."""
        return self.needed if self.free is None else max(1, self.needed - self.free)

    @property
    def has_room(self) -> bool:
        """True if the device had enough free memory, so that a limit refused the request."""
        return self.free is not None and self.free >= self.needed

    @property
    def cached(self) -> int:
        """Bytes reserved but not in use."""
        return max(0, self.reserved - self.allocated)
