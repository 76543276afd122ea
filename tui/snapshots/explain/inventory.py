"""What a process held when it ran out of memory: its agent's inventory, as checked facts.

The agent (:mod:`workloads.agent.inventory`) takes it inside the failing process, before the stack
unwinds, and writes it twice: as a line of the process's file, ``{"event": "inventory", "oom":
NUMBER, "inventory": {...}}``, and under :data:`KEY` of the OOM's snapshot, ``{"oom": {...},
"inventory": {...}}``, so that a snapshot alone tells it too. The agent imports nothing of this
program; it writes plain JSON whose keys are the fields below.

Sizes are bytes of the device that ran out. Storage is counted once, under the first of: parameter,
buffer, gradient, optimizer state, container, variable, other tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from workloads.protocol import wire

KEY = "gpu_workbench"
"""Of a snapshot's top level; torch's own viewers pass over it."""
SCHEMA = 1

Role = Literal["parameters", "buffers", "gradients", "optimizer state"]


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of Python that was being executed."""

    filename: str
    line: int
    name: str
    """The function."""


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The Python stack of a thread, innermost first; one of torch's own has none."""

    name: str
    asked: bool
    """Whether it is the thread whose request was refused."""
    main: bool
    frames: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """One name and its bytes: a parameter, or a key of optimizer state."""

    name: str
    bytes: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The parameters, buffers or gradients of one module, or the state of one optimizer."""

    role: Role
    owner: str
    """The variable that names it and its class, ``model (GPT)``; else the class alone."""
    bytes: int
    count: int
    """Tensors."""
    dtypes: tuple[str, ...]
    """The likes of ``float32``, most bytes first."""
    largest: tuple[NamedBytes, ...]
    """The largest by name, at most eight."""


@dataclass(frozen=True, slots=True)
class Container:
    """A collection that holds many tensors."""

    name: str
    """As the program names it: ``losses``, ``self.cache``, ``Model.outputs``."""
    kind: str
    """``list``, ``dict``, ``tuple``, ``deque``, ``set``, ``Queue``, ``cache`` (of functools), or
    ``object`` with attributes."""
    length: int
    tensors: int
    bytes: int
    """Of these tensors; what their graphs hold is not counted."""
    graphs: int
    """Tensors in it that carry a graph (``grad_fn``)."""
    where: CodeLine | None
    """The frame that has the variable, at the line it executes; ``None`` for a module's global."""
    scope: str
    """``local of train()``, ``global of oom.py``, ``attribute of Cache``, ``closure of hook()``."""
    graph_nodes: int = 0
    """Nodes of the graphs behind its tensors, counted once, up to the limit of the inventory."""
    dtypes: tuple[str, ...] = ()
    through: str = ""
    """What stands between it and its tensors: ``frames kept by tracebacks``; empty for nothing."""
    adds: CodeLine | None = None
    """The line that adds to it, as its code tells; ``None`` where none was found."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One tensor with a name that is not in a container: bytes, and the graph behind it."""

    name: str
    bytes: int
    shape: tuple[int, ...]
    dtype: str
    where: CodeLine | None
    scope: str
    graph_nodes: int
    """Nodes of the autograd graph behind it; 0 where it carries none."""
    adds: CodeLine | None = None
    """The line that makes it larger, or assigns it; ``None`` where none was found."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """What torch had allocated right after a step of the optimizer."""

    step: int
    allocated: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """One inventory: what Python could reach on the device that ran out."""

    schema: int
    device: int
    allocated: int
    """As torch counts it at that moment."""
    seconds: float
    """What taking it took."""
    objects: int
    """Python objects that were looked at."""
    parts: tuple[ModelPart, ...]
    containers: tuple[Container, ...]
    """Most bytes first, then most graph nodes; at most 32."""
    variables: tuple[Variable, ...]
    """Most bytes first, then most graph nodes; at most 32."""
    other_bytes: int
    """Tensors with a Python object that none of the above names: most are held by the graph."""
    other_count: int
    remainder: int
    """``allocated`` less all of the above: what autograd has saved, temporaries of the failing
    call, what C++ owns."""
    threads: tuple[ThreadStack, ...]
    skipped: tuple[str, ...]
    """What was left out and why, one line each."""
    steps: tuple[StepMemory, ...] = ()
    """Spread over all optimizer steps until then, oldest first; at most 64."""
    step: int = 0
    """Optimizer steps until then."""


@dataclass(frozen=True, slots=True)
class OomFacts:
    """What torch told the agent of one OOM, and where the program stood."""

    device: int
    asked: int
    free: int
    """Of the device, as the driver said."""
    limit: int
    """The device's total, or what torch was allowed of it."""
    allocated: int
    reserved: int
    step: int
    """Optimizer steps until then."""
    thread: str | None
    """``main``, a name, or ``None`` for one of torch's own, such as autograd's."""
    pid: int
    rank: str | None
    stack: tuple[CodeLine, ...]
    """Of the thread that asked, innermost first; empty for one of torch's own."""


NOT_WATCHED = "the snapshot was not written under gpu-workbench watch"


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """What a snapshot has of both; each ``None`` has its reason."""

    facts: OomFacts | None
    inventory: Inventory | None
    why_no_facts: str = ""
    why_no_inventory: str = ""


MOST_VALUES = 100_000
"""Values in what is parsed, of any kind; a real inventory has a few thousand."""
MOST_CHARACTERS = 4096
"""Of one text."""
LARGEST = 1 << 63
"""Integers are below it, and not below its negative."""
_MOST_LEVELS = 8


def _check_bounds(data: Any, path: str) -> None:
    """Refuse what is too large to be true, before it is read.

    Raises:
        WireError: it has too many values, levels, characters or digits.
    """
    waiting, count = [(data, 0)], 0
    while waiting:
        value, level = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise wire.WireError(f"{path}: more than {MOST_VALUES} values")
        if level > _MOST_LEVELS:
            raise wire.WireError(f"{path}: more than {_MOST_LEVELS} levels")
        _check_scalar(value, path)
        if isinstance(value, (list, tuple)):
            waiting += [(item, level + 1) for item in value[: MOST_VALUES + 1]]
        elif isinstance(value, dict):
            items = islice(value.items(), MOST_VALUES + 1)
            waiting += [(item, level + 1) for pair in items for item in pair]


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise wire.WireError(f"{path}: a text of {len(value)} characters")
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise wire.WireError(f"{path}: a number of {value.bit_length()} bits")


def parse_oom_facts(data: Any) -> OomFacts:
    """Read the facts of an OOM from plain data of a stranger.

    Raises:
        WireError: they do not fit; the message says where.
    """
    _check_bounds(data, "oom")
    found: OomFacts = wire.from_plain(OomFacts, data, "oom")
    return found


def parse_inventory(data: Any) -> Inventory:
    """Read an inventory from plain data of a stranger.

    Raises:
        WireError: it does not fit; the message says where.
    """
    _check_bounds(data, "inventory")
    found: Inventory = wire.from_plain(Inventory, data, "inventory")
    if found.schema != SCHEMA:
        raise wire.WireError(f"inventory.schema: {found.schema} is not {SCHEMA}")
    return found
