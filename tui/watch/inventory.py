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

from typing import Any, Literal

from workloads.protocol import wire
from workloads.protocol.frozen import frozen

KEY = "gpu_workbench"
"""Of a snapshot's top level; torch's own viewers pass over it."""
SCHEMA = 1

Role = Literal["parameters", "buffers", "gradients", "optimizer state"]


@frozen
class CodeLine:
    """A line of Python that was being executed."""

    filename: str
    line: int
    name: str
    """The function."""


@frozen
class ThreadStack:
    """The Python stack of a thread, innermost first; one of torch's own has none."""

    name: str
    asked: bool
    """Whether it is the thread whose request was refused."""
    main: bool
    frames: tuple[CodeLine, ...]


@frozen
class NamedBytes:
    """One name and its bytes: a parameter, or a key of optimizer state."""

    name: str
    bytes: int
    count: int = 1


@frozen
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


@frozen
class Container:
    """A collection that holds many tensors."""

    name: str
    """As the program names it: ``losses``, ``self.cache``, ``Model.outputs``."""
    kind: str
    """``list``, ``dict``, ``tuple``, ``deque``, ``set``, ``Queue``, ``object``."""
    length: int
    tensors: int
    bytes: int
    """Of these tensors; what their graphs hold is not counted."""
    graphs: int
    """Tensors in it that carry a graph (``grad_fn``)."""
    where: CodeLine | None
    """The frame that has the variable, at the line it executes; ``None`` for a module's global."""
    scope: str
    """``local of train()``, ``global of oom.py``, ``attribute of Cache``, ``closure of hook()``,
    ``frame kept by a traceback``."""
    graph_nodes: int = 0
    """Nodes of the graphs behind its tensors, counted once, up to the limit of the inventory."""
    dtypes: tuple[str, ...] = ()


@frozen
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


@frozen
class StepMemory:
    """What torch had allocated right after a step of the optimizer."""

    step: int
    allocated: int


@frozen
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
    """Tensors that Python can reach and none of the above names."""
    other_count: int
    remainder: int
    """``allocated`` less all of the above: what autograd has saved, temporaries of the failing
    call, what C++ owns."""
    threads: tuple[ThreadStack, ...]
    steps: tuple[StepMemory, ...]
    """Of the newest optimizer steps and of earlier ones spread over the run, oldest first; at most
    64."""
    step: int
    """Optimizer steps until then."""
    skipped: tuple[str, ...]
    """What was left out and why, one line each."""


@frozen
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


def parse_oom_facts(data: Any) -> OomFacts:
    """Read the facts of an OOM from plain data of a stranger.

    Raises:
        WireError: they do not fit; the message says where.
    """
    found: OomFacts = wire.from_plain(OomFacts, data, "oom")
    return found


def parse_inventory(data: Any) -> Inventory:
    """Read an inventory from plain data of a stranger.

    Raises:
        WireError: it does not fit; the message says where.
    """
    found: Inventory = wire.from_plain(Inventory, data, "inventory")
    if found.schema != SCHEMA:
        raise wire.WireError(f"inventory.schema: {found.schema} is not {SCHEMA}")
    return found
