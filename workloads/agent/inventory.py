"""Take inventory of a process that has run out of memory: its tensors and their names.

It works in the failing thread before the stack unwinds, and changes nothing: it makes no CUDA call
and no tensor, executes no code of the program and keeps no reference. Each storage counts once,
in the first category of: parameter, buffer, gradient, optimizer state, collection, variable, other
tensor. Storage that Python cannot reach (saved by autograd, temporaries of the failed call, memory
of C++) is the remainder.

The keys of :func:`take_inventory`'s result are the fields of
``tui.watch.runs.inventory.Inventory``.
"""

from __future__ import annotations

import gc
import threading
import time
import types
from collections import defaultdict
from contextlib import contextmanager
from itertools import chain
from typing import Any, Callable, Iterable, Iterator

from .backward_lines import BackwardLine, find_backward
from .leftovers import RunningFunctions
from .likely_lines import LikelyLines
from .optimizer_state import state_tensors, unstored_state
from .owners import find_owners, find_unnamed
from .reach import Holding, OutOfTimeError, VariablePlace, Walk
from .source_lines import VariableUses, find_uses
from .stacks import code_line, frames_of_threads, thread_stacks
from .tensors import TensorReader, class_dict, inherits, instance_dict, mro, name_of, slots
from .thread_locals import THREADS, Extent, group_locals

SCHEMA = 1
LONGEST_S = 2.0
"""Processor time in seconds after which the rest is left out, the same on a busy machine."""
MOST_OBJECTS = 2_000_000
MOST_NODES = 100_000
"""Most graph nodes to count behind one variable or collection."""
MOST_WRAPPERS = 4
"""Most tensors that wrap one another, such as a quantized tensor in a ``DTensor``."""
MOST_ROWS = 32
MOST_OTHERS = 3
"""Most further lines that may have added to a collection."""
MOST_LARGEST = 8
LEAST_BYTES = 1 << 20
LEAST_NODES = 32
"""Graph nodes from which a variable or a collection gets a row."""


def take_inventory(torch: Any, device: int, allocated: int, hidden: str) -> dict[str, Any]:
    """Take the inventory of a device.

    Args:
        torch: the module, as imported by the process.
        device: index of the CUDA device.
        allocated: torch's allocated bytes on the device.
        hidden: the agent's folder, whose frames are omitted.

    Returns:
        Plain data: dictionaries, lists, texts and numbers.
    """
    began = time.monotonic()
    with _unnoticed(torch):
        stock = _Stock(torch, device, time.thread_time() + LONGEST_S)
        stock.count_all()
        return dict(
            stock.rows(allocated),
            schema=SCHEMA,
            device=device,
            allocated=allocated,
            threads=thread_stacks(threading.get_ident(), hidden),
            seconds=round(time.monotonic() - began, 4),
        )


def find_roles(torch: Any, device: int) -> dict[str, list[int]]:
    """Return the addresses of a device's storages that modules and optimizers own, by role.

    Args:
        torch: the module, as imported by the process.
        device: index of the CUDA device.
    """
    with _unnoticed(torch):
        stock = _Stock(torch, device, time.thread_time() + LONGEST_S)
        stock.count_owned(finds_untrained=False)
        return stock.roles


@contextmanager
def _unnoticed(torch: Any) -> Iterator[None]:
    """Let nothing of the program run while its objects are read."""
    collects = gc.isenabled()
    # Garbage collection would visit all objects again, and execute finalizers.
    gc.disable()
    try:
        # Neither subclasses nor modes such as torch.device(...) notice the reading.
        with torch._C.DisableTorchFunction():
            yield
    finally:
        if collects:
            gc.enable()


_TensorsIn = Callable[[Any], "list[Any]"]


class _Stock:
    """The findings, and the storage already counted."""

    def __init__(self, torch: Any, device: int, deadline: float) -> None:
        self._torch = torch
        self._deadline = deadline
        self._reader = TensorReader(torch, device)
        self._walk = Walk(self._reader, torch, MOST_OBJECTS, deadline)
        self._threads: list[Extent] = []
        self._running = RunningFunctions()
        self._counted: set[int] = set()
        self.roles: dict[str, list[int]] = defaultdict(list)
        """Addresses of the storages of each role."""
        self._bytes = 0
        self._tensors: list[Any] = []
        self._parts: list[dict[str, Any]] = []
        self._skipped: list[str] = []
        self._objects = 0
        self._used: set[int] = set()
        """Ids of the parameters in graphs that no optimizer updates, if there are optimizers."""
        self._likely: LikelyLines | None = None
        """Created with the first collection to which several lines add."""
        self._optimized: set[int] = set()
        """Ids of the tensors that optimizers update."""

    # ---- counting ----

    def count_all(self) -> None:
        """Find all tensors, and categorize them by their owners and their names."""
        self.count_owned(finds_untrained=True)
        self._follow()

    def count_owned(self, *, finds_untrained: bool) -> None:
        """Find all tensors, and categorize the tensors of modules and optimizers.

        Args:
            finds_untrained: follow the graphs to the parameters that no optimizer updates.
        """
        modules, optimizers = self._find()
        owned = {id(child): module for module in modules for child in _children(module)}
        roots = [module for module in modules if id(module) not in owned]
        by_root = {id(root): list(_named_parameters(root, self._tensors_in)) for root in roots}
        self._optimized = {
            id(each) for optimizer in optimizers for each in _optimized(optimizer, self._tensors_in)
        }
        if self._optimized and finds_untrained:
            self._used = self._find_used() - self._optimized
        for role in ("parameters", "buffers"):
            for root in roots:
                named = [(name, tensor) for kind, name, tensor in by_root[id(root)] if kind == role]
                self._add_part(role, root, named, self._used if role == "parameters" else set())
        for root in roots:
            named = [
                (name, tensor) for kind, name, tensor in by_root[id(root)] if kind == "parameters"
            ]
            self._add_gradients(root, named)
        frames = list(chain(*_frames_of_program())) if optimizers else []
        for optimizer in optimizers:
            parameters = list(_optimized(optimizer, self._tensors_in))
            self._add_part("parameters", optimizer, [("", tensor) for tensor in parameters], set())
            self._add_gradients(optimizer, [("", tensor) for tensor in parameters])
            self._add_state(optimizer, frames)

    def _find(self) -> tuple[list[Any], list[Any]]:
        """Find the tensors, modules and optimizers among all objects of the garbage collector."""
        module, optimizer = self._torch.nn.Module, self._torch.optim.Optimizer
        modules: list[Any] = []
        optimizers: list[Any] = []
        # By id, as a metaclass may define a hash; a reference to the class keeps its id unique.
        kinds: dict[int, tuple[type, list[Any] | None]] = {}
        for number, item in enumerate(gc.get_objects()):
            if number >= MOST_OBJECTS or (
                not number & 4095 and time.thread_time() > self._deadline
            ):
                self._skipped.append("objects beyond the first %d" % number)
                break
            self._objects = number + 1
            kind = type(item)
            known = kinds.get(id(kind))
            if known is None:
                into = None
                if self._reader.is_tensor_type(kind):
                    into = self._tensors
                elif inherits(kind, module):
                    into = modules
                elif inherits(kind, optimizer):
                    into = optimizers
                known = kinds[id(kind)] = kind, into
            into = known[1]
            if into is not None:
                into.append(item)
        return modules, optimizers

    def _follow(self) -> None:
        """Follow all names, within the time limit."""
        try:
            for frames in _frames_of_program():
                extent = Extent(self._walk)
                self._walk.frames(frames)
                self._running.add(frames)
                extent.close()
                self._threads.append(extent)
            self._walk.modules()
            self._walk.hooks()
            self._walk.last_failure()
            self._walk.handled()
            unnamed = find_unnamed(self._walk, self._reader, self._tensors, self._counted)
            self._walk.owners(find_owners(unnamed, [self._tensors], self._deadline))
        except OutOfTimeError as error:
            self._skipped.append("names beyond %s" % error)
        if self._walk.omitted:
            self._skipped.append(self._walk.omitted)
        if self._walk.unreadable:
            text = "%d objects that could not be read" % self._walk.unreadable
            self._skipped.append("%s: %s" % (text, self._walk.why_unreadable))

    def _count(self, tensor: Any, role: str = "") -> int:
        """Return the bytes of a tensor's storage; 0 if it is already counted."""
        storage = self._reader.storage(tensor)
        if storage is None or storage[0] in self._counted:
            return 0
        self._counted.add(storage[0])
        if role:
            self.roles[role].append(storage[0])
        self._bytes += storage[1]
        return storage[1]

    # ---- modules and optimizers ----

    def _add_part(
        self, role: str, owner: Any, named: list[tuple[str, Any]], untrained_ids: set[int]
    ) -> None:
        sizes: list[tuple[str, int]] = []
        kinds: dict[str, int] = defaultdict(int)
        untrained = 0
        for name, tensor in named:
            for part in self._tensors_in(tensor):
                size = self._count(part, role)
                if size:
                    sizes.append((name, size))
                    kinds[self._reader.dtype(part)] += size
                    untrained += size if id(tensor) in untrained_ids else 0
        if sizes:
            self._parts.append(dict(_part(role, owner, sizes, kinds), untrained=untrained))

    def _find_used(self) -> set[int]:
        """Return the ids of the leaf tensors at which the graphs of all tensors end."""
        if time.thread_time() > self._deadline:
            return set()
        roots = [node for node in map(self._graph, self._tensors) if node is not None]
        leaves = map(_leaf_of, _find_nodes(roots))
        return {id(leaf) for leaf in leaves if leaf is not None}

    def _tensors_in(self, value: Any, depth: int = 0) -> list[Any]:
        """Return the readable tensors that hold a tensor's data; none for another object.

        A wrapper, such as a ``DTensor``, has no storage: its attributes are tensors that do.
        """
        kind = type(value)
        if self._reader.is_tensor_type(kind):
            return [value]
        if depth == MOST_WRAPPERS or not inherits(kind, self._torch.Tensor):
            return []
        contents = [*dict.values(instance_dict(value) or {}), *(part for _, part in slots(value))]
        return [tensor for part in contents for tensor in self._tensors_in(part, depth + 1)]

    def _add_gradients(self, owner: Any, named: list[tuple[str, Any]]) -> None:
        gradients: list[tuple[str, Any]] = []
        untrained: set[int] = set()
        for name, tensor in named:
            gradient = self._reader.gradient(tensor)
            if gradient is not None:
                gradients.append((name, gradient))
                if self._optimized and id(tensor) not in self._optimized:
                    untrained.add(id(gradient))
        self._add_part("gradients", owner, gradients, untrained)

    def _add_state(self, optimizer: Any, frames: list[types.FrameType]) -> None:
        sizes: dict[str, list[int]] = defaultdict(list)
        kinds: dict[str, int] = defaultdict(int)
        stored = state_tensors(optimizer, self._tensors_in)
        for name, tensor in chain(stored, unstored_state(optimizer, frames, self._tensors_in)):
            size = self._count(tensor, "optimizer state")
            if size:
                sizes[name].append(size)
                kinds[self._reader.dtype(tensor)] += size
        if sizes:
            sums = [(name, sum(of_name)) for name, of_name in sizes.items()]
            part = _part("optimizer state", optimizer, sums, kinds)
            for row in part["largest"]:
                row["count"] = len(sizes[row["name"]])
            self._parts.append(dict(part, count=sum(map(len, sizes.values()))))

    # ---- rows ----

    def rows(self, allocated: int) -> dict[str, Any]:
        """Return all rows as plain data."""
        parts = self._merge_parts()
        counted: list[dict[str, Any]] = []
        named: list[dict[str, Any]] = []
        for findings in group_locals(self._walk, self._threads, self._has_graph):
            counted += map(self._container, findings.holdings)
            named += [self._variable(*variable) for variable in findings.variables]
        containers, variables = self._select_rows(counted), self._select_rows(named)
        # After the lines that add to each, which matter more, as the time may end.
        roots = [row.pop("root") for row in variables]
        for row, separate in zip(variables, self._find_separate(roots)):
            row["separate"] = separate
        for row in variables:
            row["left_over"] = self._find_left_over(row.pop("tensor"))
        other = [size for size in map(self._count, self._tensors) if size]
        return dict(
            objects=max(self._objects, self._walk.visited),
            parts=sorted(parts, key=lambda part: -part["bytes"])[:MOST_ROWS],
            containers=containers,
            variables=variables,
            other_bytes=sum(other),
            other_count=len(other),
            remainder=max(0, allocated - self._bytes),
            skipped=self._skipped,
        )

    def _merge_parts(self) -> list[dict[str, Any]]:
        """Return the parts with their owners' names, those of equal names together.

        Models in a long list have the list's name.
        """
        merged: dict[tuple[str, str], dict[str, Any]] = {}
        for part in self._parts:
            part["owner"] = self._owner(part.pop("of"))
            key = part["role"], part["owner"]
            first = merged.setdefault(key, dict(part, owners=0))
            first["owners"] += 1
            if first["owners"] > 1:
                first["bytes"] += part["bytes"]
                first["count"] += part["count"]
                first["untrained"] += part["untrained"]
                first["dtypes"] += [kind for kind in part["dtypes"] if kind not in first["dtypes"]]
        return list(merged.values())

    def _owner(self, owner: Any) -> str:
        name, kind = self._walk.names.get(id(owner), ""), name_of(type(owner))
        return "%s (%s)" % (name, kind) if name and name != kind else kind

    def _select_rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the largest rows by bytes and by graph, with the lines that add to them."""
        selected = [
            row for row in rows if row["bytes"] >= LEAST_BYTES or row["graph_nodes"] >= LEAST_NODES
        ]
        selected.sort(key=lambda row: (-row["bytes"], -row["graph_nodes"]))
        if len(selected) > MOST_ROWS:
            largest = sorted(selected[MOST_ROWS // 2 :], key=lambda row: -row["graph_nodes"])
            selected = selected[: MOST_ROWS // 2] + largest[: MOST_ROWS // 2]
        for row in selected:
            graphs = bool(row.get("graphs"))
            row.update(self._uses(row.pop("place"), row.get("kind"), has_graphs=graphs))
        return selected

    def _uses(self, place: VariablePlace, kind: str | None, *, has_graphs: bool) -> dict[str, Any]:
        """Return the lines that change a row's variable, as far as its code shows them."""
        collection = kind is not None
        uses = self._find_uses(place, collection=collection and kind != THREADS)
        backward = self._find_backward(place)
        adds, *others = [uses.adds]
        if len(uses.adding) > 1:
            if self._likely is None:
                named = self._walk.variables
                self._likely = LikelyLines(named, self._reader.storage, self._has_graph)
            adds, *others = self._likely.rank(uses.adding, has_graphs=has_graphs)
        lines = dict(
            adds=_code_place(adds),
            backward=None if backward is None else _code_place(backward.place),
            retains=backward is not None and backward.retains,
        )
        if collection:
            also = [_code_place(each) for each in others[:MOST_OTHERS]]
            return dict(
                lines, also_adds=also, enlarges=uses.enlarges, empties=_code_place(uses.empties)
            )
        return dict(lines, enlarges=uses.enlarges, accumulates=uses.accumulates)

    def _find_backward(self, place: VariablePlace) -> BackwardLine | None:
        if time.thread_time() > self._deadline:
            return None
        name = place.name.partition("[")[0].rpartition(".")[2]
        return find_backward(name, place.codes(), self._walk.running)

    def _find_uses(self, place: VariablePlace, *, collection: bool) -> VariableUses:
        if time.thread_time() > self._deadline:
            return VariableUses(None, False, None, False)
        item = place.name.endswith("]")
        owner, _, key = place.name.rpartition("[") if item else (place.name, "", "")
        name = owner.rpartition(".")[2].partition("[")[0]
        key = key.rstrip("]").strip("'\"")
        uses = find_uses(name, place.codes(), collection=collection, key=key)
        if uses.adds is None and "." in place.name:
            # An attribute of an object in a collection, or one with another name.
            first = place.name.partition("[")[0].partition(".")[0]
            uses = find_uses(first, place.codes(), collection=collection)
        return uses

    def _container(self, holding: Holding) -> dict[str, Any]:
        sizes = [self._count(tensor) for tensor in holding.tensors]
        graphs = [node for node in map(self._graph, holding.tensors) if node is not None]
        return dict(
            name=holding.place.name,
            kind=holding.kind,
            length=holding.length,
            limit=holding.limit,
            tensors=len(holding.tensors),
            bytes=sum(sizes),
            viewed=sum(map(self._reader.viewed, holding.tensors)),
            graphs=len(graphs),
            graph_nodes=self._nodes(graphs),
            longest_graph=max((self._nodes([node]) for node in graphs[-2:]), default=0),
            where=_where(holding.place),
            scope=holding.place.scope,
            through=holding.through,
            dtypes=sorted({self._reader.dtype(tensor) for tensor in holding.tensors[:1000]}),
            place=holding.place,
        )

    def _variable(self, place: VariablePlace, tensor: Any) -> dict[str, Any]:
        node = self._graph(tensor)
        return dict(
            name=place.name,
            bytes=self._count(tensor),
            shape=self._reader.shape(tensor),
            dtype=self._reader.dtype(tensor),
            graph_nodes=0 if node is None else self._nodes([node]),
            root=node,
            tensor=tensor,
            where=_where(place),
            scope=place.scope,
            place=place,
        )

    def _find_left_over(self, tensor: Any) -> list[str]:
        """Return the variables to delete to free a tensor that nothing needs any more; else none.

        The list is empty if another place holds its storage, which may be needed.
        """
        variables = self._walk.variables
        places = [place for place, other in variables if other is tensor]
        names = [self._running.find_left_over(place) for place in places]
        if not all(names) or time.thread_time() > self._deadline:
            return []
        storage = self._reader.storage(tensor)
        for place, other in variables:
            if other is not tensor and self._reader.storage(other) == storage:
                names.append(self._running.find_left_over(place))
        held = (other for holding in self._walk.holdings for other in holding.tensors)
        if not all(names) or any(self._reader.storage(other) == storage for other in held):
            return []
        return list(dict.fromkeys(names))

    def _find_separate(self, roots: list[Any]) -> list[bool]:
        """Return which graphs share no operation with another one; none after the deadline.

        Graphs of several passes share their leaves, which add to the gradients of parameters.
        """
        counts: dict[int, int] = defaultdict(int)
        operations: dict[int, list[Any]] = {}
        for root in roots:
            if root is None or id(root) in operations or time.thread_time() > self._deadline:
                continue  # a tensor may have two names
            nodes = [node for node in _find_nodes([root]) if _leaf_of(node) is None]
            operations[id(root)] = nodes
            for node in nodes:
                counts[id(node)] += 1
        return [
            id(root) in operations and all(counts[id(node)] == 1 for node in operations[id(root)])
            for root in roots
        ]

    def _graph(self, tensor: Any) -> Any:
        return self._reader.graph(tensor)

    def _has_graph(self, tensor: Any) -> bool:
        return self._graph(tensor) is not None

    def _nodes(self, roots: list[Any]) -> int:
        if not roots or time.thread_time() > self._deadline:
            return 0
        return _count_nodes(roots)


def _part(
    role: str, owner: Any, sizes: list[tuple[str, int]], kinds: dict[str, int]
) -> dict[str, Any]:
    largest = sorted(sizes, key=lambda named: -named[1])[:MOST_LARGEST]
    return dict(
        role=role,
        of=owner,
        bytes=sum(size for _, size in sizes),
        count=len(sizes),
        dtypes=sorted(kinds, key=lambda name: -kinds[name]),
        largest=[dict(name=name, bytes=size, count=1) for name, size in largest],
        untrained=0,
    )


def _code_place(place: Any) -> dict[str, Any] | None:
    if place is None:
        return None
    code, line = place
    return code_line(code.co_filename, line, code.co_name)


def _where(place: VariablePlace) -> dict[str, Any] | None:
    return None if place.frame is None else code_line(*place.frame)


def _children(module: Any) -> Iterable[Any]:
    """Yield a module's direct children."""
    children: Any = (instance_dict(module) or {}).get("_modules")
    if inherits(type(children), dict):
        for child in list(dict.values(children)):
            if child is not None:
                yield child


def _named_parameters(root: Any, tensors_in: _TensorsIn) -> Iterable[tuple[str, str, Any]]:
    """Yield role, name and tensor of each registration of a module and its submodules."""
    waiting, seen = [("", root)], {id(root)}
    while waiting:
        path, module = waiting.pop()
        names = instance_dict(module) or {}
        for role, attribute in (("parameters", "_parameters"), ("buffers", "_buffers")):
            registered: Any = names.get(attribute)
            if inherits(type(registered), dict):
                for name, tensor in list(dict.items(registered)):
                    if tensors_in(tensor):
                        yield role, "%s%s" % (path, _text(name)), tensor
        children: Any = names.get("_modules")
        if inherits(type(children), dict):
            for name, child in list(dict.items(children)):
                if child is not None and id(child) not in seen:
                    seen.add(id(child))
                    waiting.append(("%s%s." % (path, _text(name)), child))


def _text(name: Any) -> str:
    """Return a key as text, or a placeholder for other types, whose ``__str__`` may be foreign."""
    return name if type(name) is str else "?"


def _optimized(optimizer: Any, tensors_in: _TensorsIn) -> Iterable[Any]:
    """Yield the tensors that an optimizer updates."""
    groups = (instance_dict(optimizer) or {}).get("param_groups")
    for group in list.__iter__(groups) if type(groups) is list else ():
        parameters = group.get("params") if type(group) is dict else None
        for tensor in list.__iter__(parameters) if type(parameters) is list else ():
            if tensors_in(tensor):
                yield tensor


def _frames_of_program() -> list[list[types.FrameType]]:
    """Return the frames of each thread without the agent's."""
    return frames_of_threads(threading.get_ident(), __name__.rpartition(".")[0])


def _next_nodes(node: Any) -> list[Any]:
    """Return the next nodes of the autograd graph, to which a node passes its gradients."""
    for kind in mro(type(node)):
        descriptor = class_dict(kind).get("next_functions")
        if descriptor is None:
            continue
        if type(descriptor) is types.GetSetDescriptorType:
            return [edge[0] for edge in descriptor.__get__(node) if edge[0] is not None]
        return []
    return []


def _leaf_of(node: Any) -> Any:
    """Return the tensor to whose gradient a node adds; ``None`` for a node of an operation."""
    for kind in mro(type(node)):
        descriptor = class_dict(kind).get("variable")
        if type(descriptor) is types.GetSetDescriptorType:
            return descriptor.__get__(node)
    return None


def _count_nodes(roots: list[Any]) -> int:
    """Count the nodes of the autograd graphs behind some nodes, up to :data:`MOST_NODES`."""
    return min(len(_find_nodes(roots)), MOST_NODES)


def _find_nodes(roots: list[Any]) -> list[Any]:
    """Return the nodes of the graphs behind some nodes, about :data:`MOST_NODES` at most."""
    # Keep all wrappers until the end: a freed wrapper's id could be reused.
    seen = {id(root): root for root in roots}
    waiting = list(seen.values())
    while waiting and len(seen) < MOST_NODES:
        for node in _next_nodes(waiting.pop()):
            if id(node) not in seen:
                seen[id(node)] = node
                waiting.append(node)
    return list(seen.values())
