"""The memory of a process at its OOM: the inventory taken by its agent, as checked facts.

The agent (:mod:`workloads.agent.inventory`) takes the inventory inside the failing process, before
the stack unwinds, and writes it twice: as a line of the process's file, ``{"event": "inventory",
"oom": NUMBER, "inventory": {...}}``, and under :data:`KEY` of the OOM's snapshot, ``{"oom": {...},
"inventory": {...}}``, so that the snapshot alone is sufficient. The agent imports nothing from this
program; it writes plain JSON whose keys are the fields below.

Sizes are bytes on the device that ran out of memory. Each storage is counted once, under the first
match of: parameter, buffer, gradient, optimizer state, container, variable, other tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

from tui.snapshots.explain.frames import Frame
from workloads.protocol import wire

if TYPE_CHECKING:
    from typing_extensions import TypeForm

KEY = "gpu_workbench"
"""Key at a snapshot's top level; torch's own viewers ignore it."""
SCHEMA = 1

Part = TypeVar("Part")
Role = Literal["parameters", "buffers", "gradients", "optimizer state"]


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The Python stack of a thread, innermost first; empty for torch's own threads."""

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"made_request": "asked"}

    name: str
    made_request: bool
    """True for the thread whose request was refused."""
    main: bool
    frames: tuple[Frame, ...]


def find_main_stack(threads: Sequence[ThreadStack]) -> tuple[Frame, ...]:
    """Return the main thread's stack, empty if it is not known."""
    return next((thread.frames for thread in threads if thread.main), ())


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """A name and its bytes: a parameter, or a key of optimizer state."""

    name: str
    bytes: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The parameters, buffers or gradients of one module, or the state of one optimizer."""

    role: Role
    owner: str
    """The variable and its class, ``model (GPT)``; the class alone without a variable."""
    bytes: int
    count: int
    """Number of tensors."""
    dtypes: tuple[str, ...]
    """Names such as ``float32``, most bytes first."""
    largest: tuple[NamedBytes, ...]
    """The largest entries by name, at most eight; those of the first owner."""
    owners: int = 1
    """Number of modules or optimizers with this name, such as those in a list."""
    untrained: int = 0
    """Bytes of parameters that require gradients, or of gradients, that no optimizer uses, although
    the process has an optimizer."""


def split_owner(owner: str) -> tuple[str, str]:
    """Return the variable and the class of ``model (GPT)``; an empty variable for ``GPT``."""
    name, named, kind = owner.partition(" (")
    return (name, kind.rstrip(")")) if named else ("", name)


@dataclass(frozen=True, slots=True)
class Container:
    """A collection of many tensors."""

    name: str
    """Its name in the program: ``losses``, ``self.cache``, ``Model.outputs``."""
    kind: str
    """``list``, ``dict``, ``tuple``, ``deque``, ``limited deque`` (with a ``maxlen``), ``set``,
    ``Queue``, ``limited Queue`` (with a ``maxsize``), ``cache`` (of functools), ``object`` with
    attributes, ``threads`` (one local of one function in several), ``stored exception``, or
    ``exception`` that is being handled or was a command's, with its frames."""
    length: int
    """Number of items; of ``threads``, their number."""
    tensors: int
    bytes: int
    """Bytes of these tensors, without the memory held by their graphs."""
    graphs: int
    """Number of its tensors with a graph (``grad_fn``)."""
    where: Frame | None
    """The frame with the variable, at the line it executes; ``None`` for a global of a module."""
    scope: str
    """``local of train()``, ``global of oom.py``, ``attribute of Cache``, ``closure of hook()``."""
    viewed: int = 0
    """Bytes of the tensors' own elements, less than :attr:`bytes` for views; 0 if unknown."""
    limit: int = 0
    """The most items of a limited deque or Queue; 0 if unknown or without a limit."""
    graph_nodes: int = 0
    """Number of nodes in the graphs of its tensors, counted once, up to the inventory's limit."""
    longest_graph: int = 0
    """Number of nodes in the longer graph of its last two tensors."""
    dtypes: tuple[str, ...] = ()
    through: str = ""
    """Objects between the container and its tensors: ``frames kept by tracebacks``; empty for
    none."""
    adds: Frame | None = None
    """The line that adds to the container, found in the program's code; ``None`` if not found."""
    also_adds: tuple[Frame, ...] = ()
    """Other lines that may have added as much."""
    enlarges: bool = False
    """True if that line adds items; False if it only assigns the container."""
    empties: Frame | None = None
    """A line that removes items, or makes the container anew in a loop; ``None`` if not found."""
    backward: Frame | None = None
    """A line that passes its tensors, or what is computed from them, to one backward pass."""
    retains: bool = False
    """True if that backward pass frees nothing, because it keeps its graph for another one."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A named tensor outside all containers: its bytes, and the size of its graph."""

    name: str
    bytes: int
    shape: tuple[int, ...]
    dtype: str
    where: Frame | None
    scope: str
    graph_nodes: int
    """Number of nodes in its autograd graph; 0 without a graph."""
    separate: bool = False
    """True if its graph shares no operation with that of another variable."""
    adds: Frame | None = None
    """The line that enlarges or assigns it; ``None`` if not found."""
    enlarges: bool = False
    """True if that line joins tensors to a longer one, as ``torch.cat`` does."""
    accumulates: bool = False
    """True if that line is in a loop and computes the tensor from what it was."""
    backward: Frame | None = None
    """A line that passes it, or what is computed from it, to a backward pass."""
    retains: bool = False
    """True if that backward pass frees nothing, because it keeps its graph for another one."""
    left_over: tuple[str, ...] = ()
    """The variables that keep it from the previous iteration of a loop, and that no line reads
    before it assigns them again; empty if its value may still be needed."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes that torch had allocated right after an optimizer step."""

    step: int
    allocated: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """One inventory: all objects that Python could reach on the device that ran out of memory."""

    schema: int
    device: int
    allocated: int
    """torch's own count of allocated bytes at that moment."""
    seconds: float
    """Time that the inventory took."""
    objects: int
    """Number of Python objects examined."""
    parts: tuple[ModelPart, ...]
    containers: tuple[Container, ...]
    """Sorted by bytes, then by graph nodes, largest first; at most 32."""
    variables: tuple[Variable, ...]
    """Sorted by bytes, then by graph nodes, largest first; at most 32."""
    other_bytes: int
    """Bytes of tensors with a Python object but without a name above; graphs hold most of them."""
    other_count: int
    remainder: int
    """``allocated`` minus all of the above: memory saved by autograd, temporaries of the failing
    call, memory owned by C++."""
    threads: tuple[ThreadStack, ...]
    skipped: tuple[str, ...]
    """Omissions and their reasons, one line each."""
    steps: tuple[StepMemory, ...] = ()
    """Samples spread over all optimizer steps before the OOM, oldest first; at most 64."""
    step: int = 0
    """Number of optimizer steps before the OOM."""


@dataclass(frozen=True, slots=True)
class OomFacts:
    """Facts that torch passed to the agent at one OOM, and the program's position."""

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"request": "asked"}

    device: int
    request: int
    """Bytes of the refused request."""
    free: int
    """Free bytes of the device, reported by the driver."""
    limit: int
    """Total bytes of the device, or the part that torch was allowed to use."""
    allocated: int
    reserved: int
    step: int
    """Number of optimizer steps before the OOM."""
    thread: str | None
    """``main``, a name, or ``None`` for one of torch's own threads, such as autograd's."""
    pid: int
    rank: str | None
    stack: tuple[Frame, ...]
    """Stack of the requesting thread, innermost first; empty for one of torch's own."""


@dataclass(frozen=True, slots=True)
class RoleAddresses:
    """The storages on one device that modules or optimizers own in one role."""

    device: int
    role: str
    """``parameters``, ``buffers``, ``gradients`` or ``optimizer state``."""
    addresses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The agent's data in a snapshot: OOM facts and an inventory, or a rehearsal's owners."""

    facts: OomFacts | None = None
    inventory: Inventory | None = None
    roles: tuple[RoleAddresses, ...] = ()
    """The owners of the memory at the end of a rehearsal."""
    faults: tuple[str, ...] = ()
    """Parts that cannot be read, one line each."""


MOST_VALUES = 100_000
"""Maximum number of values of any kind in parsed data; a real inventory has a few thousand."""
MOST_CHARACTERS = 4096
"""Maximum number of characters in one text."""
LARGEST = 1 << 63
"""Exclusive upper bound for integers; its negative is the inclusive lower bound."""
_MOST_LEVELS = 8


MOST_ADDRESSES = 1_000_000
"""Maximum number of storages with an owner."""


def _check_bounds(data: Any, path: str, most: int = MOST_VALUES) -> None:
    """Reject implausibly large data before it is parsed.

    Raises:
        WireError: the data has too many values, levels, characters or digits.
    """
    waiting, count = [(data, 0)], 0
    while waiting:
        value, level = waiting.pop()
        count += 1
        if count > most:
            raise wire.WireError(f"{path}: more than {most} values")
        if level > _MOST_LEVELS:
            raise wire.WireError(f"{path}: more than {_MOST_LEVELS} levels")
        _check_scalar(value, path)
        if isinstance(value, (list, tuple)):
            waiting += [(item, level + 1) for item in value[: most + 1]]
        elif isinstance(value, dict):
            items = islice(value.items(), most + 1)
            waiting += [(item, level + 1) for pair in items for item in pair]


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise wire.WireError(f"{path}: a text of {len(value)} characters")
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise wire.WireError(f"{path}: a number of {value.bit_length()} bits")


def _parse(kind: TypeForm[Part], data: Any, path: str, most: int = MOST_VALUES) -> Part:
    """Parse untrusted plain data.

    Raises:
        WireError: the data has the wrong form; the message names the position.
    """
    _check_bounds(data, path, most)
    return cast(Part, wire.from_plain(kind, data, path))


def parse_inventory(data: Any) -> Inventory:
    """Parse an inventory from untrusted plain data.

    Raises:
        WireError: the data has the wrong form; the message names the position.
    """
    inventory = _parse(Inventory, data, "inventory")
    if inventory.schema != SCHEMA:
        raise wire.WireError(f"inventory.schema: {inventory.schema} is not {SCHEMA}")
    return inventory


def _parse_roles(data: Any) -> tuple[RoleAddresses, ...]:
    return _parse(tuple[RoleAddresses, ...], data, "roles", MOST_ADDRESSES)


def parse_agent_record(top: dict[Any, Any]) -> AgentRecord:
    """Parse the agent's record from a snapshot's top level, which may hold arbitrary data there."""
    record = top.get(KEY, {})
    if not isinstance(record, dict):
        return AgentRecord(faults=(f"the agent's record is no object: {KEY}",))
    faults: list[str] = []

    def read(key: str, parse: Callable[[Any], Part]) -> Part | None:
        if record.get(key) is None:
            return None
        try:
            return parse(record[key])
        except wire.WireError as error:
            faults.append(f"the agent's record cannot be read: {error}")
            return None

    facts = read("oom", lambda data: _parse(OomFacts, data, "oom"))
    inventory = read("inventory", parse_inventory)
    roles = read("roles", _parse_roles) or ()
    return AgentRecord(facts, inventory, roles, tuple(faults))
