"""The layers of a timeline's live bytes: the purpose of each allocation, and its grouping.

A stack shows the phase of a training step that requested memory, which is not always the memory's
purpose: a forward pass also creates workspaces besides activations. Phases are therefore named as
phases; only data from the file gets torch's names (``torch.profiler._memory_profiler.Category``).

Most allocations live only between two of the moments shown. Operations on columns of ``array``
discard them first, so a million entries take a fraction of a second.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise
from operator import lt

from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.frames import BEFORE_TRACE_STACK
from tui.snapshots.analysis.sites import annotation_at, site_node
from tui.snapshots.analysis.timeline import bands, buckets, ticks
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.pictures import NO_CATEGORY, REST, Layer, LayerSize, Stacking, Timeline
from tui.snapshots.model.results import BEFORE, Part, SiteRow
from tui.snapshots.model.snapshot import NOT_RECORDED

_UNKNOWN = ("", "unknown")
_NAMES = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer_state": "optimizer state",
    "activation": "activations",
    "input": "inputs",
    "temporary": "temporaries",
    "autograd_detail": "autograd details",
}
_OPTIMIZER_STEP = "Optimizer.step#"
"""Start of torch's annotation name for a step, followed by the optimizer's class."""


@dataclass(frozen=True, slots=True)
class Category:
    """The purpose of allocations."""

    name: str
    """One of torch's names, a phase of a training step, or :data:`NO_CATEGORY`."""
    basis: str
    """Short description of the evidence in the file."""


UNCATEGORIZED = Category(NO_CATEGORY, "neither category, annotation nor stack says what it is for")
_PARAMETERS = Category("parameters", "the stack moves or makes a module's parameters and buffers")
_STATE = Category("optimizer state", "the stack goes through the optimizer's set-up of its state")
_STEP = Category("optimizer step", "the stack goes through torch.optim: state or temporaries")
_GRADIENTS = Category("gradients", "the stack goes through autograd's AccumulateGrad")
_CLEARED = Category("gradients", "freed by zero_grad")
_WORKSPACE = Category("cuBLAS workspace", "the stack goes through cuBLAS's handle or workspace")
_BACKWARD = Category("backward pass", "the stack goes through autograd's backward pass")
_FORWARD = Category("forward pass", "the stack goes through a module's forward: kept or temporary")
_ACTIVATIONS = Category("activations", "made in a forward pass, freed by the backward pass")
_ANNOTATED = Category("optimizer step", f"made within the annotation {_OPTIMIZER_STEP}…")
_PROFILER = "the file's category key"

_NATIVE: tuple[tuple[tuple[str, ...], Category], ...] = (
    (("at::cuda::getCurrentCUDABlasHandle",), _WORKSPACE),
    (("at::cuda::getCUDABlasLtWorkspace",), _WORKSPACE),
    (("torch::autograd::", "AccumulateGrad"), _GRADIENTS),
    (("torch::autograd::Engine::",), _BACKWARD),
)
"""Categories of C++ frames: all texts must occur in the name."""
_STATE_MADE_IN = ("_init_group", "load_state_dict", "_process_value_according_to_param_policy")
_PYTHON: tuple[tuple[str, tuple[str, ...], Category], ...] = (
    (r"/optim/(?!lr_scheduler\.py)", ("zero_grad",), _CLEARED),
    (r"/optim/(?!lr_scheduler\.py)", _STATE_MADE_IN, _STATE),
    (r"/optim/(?!lr_scheduler\.py)", (), _STEP),
    (r"/autograd/|/_tensor\.py$", ("backward", "_engine_run_backward"), _BACKWARD),
    (r"/nn/modules/module\.py$", ("zero_grad",), _CLEARED),
    (r"/nn/modules/module\.py$", ("_apply", "to_empty", "_load_from_state_dict"), _PARAMETERS),
    (
        r"/nn/modules/module\.py$",
        ("_call_impl", "_wrapped_call_impl", "_slow_forward"),
        _FORWARD,
    ),
    (
        r"/nn/modules/(?!module\.py)|/nn/parameter\.py$",
        ("__init__", "reset_parameters"),
        _PARAMETERS,
    ),
)
"""Categories of torch's frames: path below its folder, and function names, any if empty."""
_PATHS = tuple((re.compile(f"/torch(?:{path})"), names, phase) for path, names, phase in _PYTHON)


class Categories:
    """Determines the category of each allocation on one device; examines each stack once."""

    def __init__(self, device: DeviceData) -> None:
        self._device = device
        self._table = device.allocations
        self._trace = device.trace
        self._recorded = [_parse_category(name) for name in device.snapshot.categories]
        self._annotated = any(
            note.name.startswith(_OPTIMIZER_STEP) for note in device.snapshot.annotations
        )
        self._by_stack: dict[int, Category] = {0: UNCATEGORIZED, BEFORE_TRACE_STACK: UNCATEGORIZED}

    def of(self, row: int) -> Category:
        """Return the category of one allocation, by its row in the table."""
        start = self._table.start[row]
        if start != BEFORE:
            recorded = self._recorded[self._trace.category[start]]
            if recorded is not None:
                return recorded
        stack = self._table.stack[row]
        category = self.of_stack(stack)
        freed = self._freed_by(row, stack)
        if category is _FORWARD and freed in (_BACKWARD, _GRADIENTS):
            return _ACTIVATIONS
        # Most gradients are not copied by AccumulateGrad, but reused as the engine created them.
        if category in (_BACKWARD, UNCATEGORIZED) and freed is _CLEARED:
            return _CLEARED
        if category is UNCATEGORIZED and self._annotated:
            annotation = annotation_at(self._device, start)
            if annotation.startswith(_OPTIMIZER_STEP):
                return _ANNOTATED
        return category

    def of_stack(self, stack: int) -> Category:
        """Return the category that a stack alone shows."""
        category = self._by_stack.get(stack)
        if category is None:
            category = find_phase(self._device.stacks.of(stack)) or UNCATEGORIZED
            self._by_stack[stack] = category
        return category

    def _freed_by(self, row: int, stack: int) -> Category:
        """Return the phase that freed an allocation, or :data:`UNCATEGORIZED` without a stack."""
        free = self._table.requested[row]
        if not 0 <= free < self._table.events:
            return UNCATEGORIZED
        # A free without a stack of its own repeats its allocation's stack.
        freed_by = self._trace.stack[free]
        return UNCATEGORIZED if freed_by == stack else self.of_stack(freed_by)


def _parse_category(name: str) -> Category | None:
    """Return the category named by an entry; ``None`` if it has none."""
    plain = name.strip().lower()
    return None if plain in _UNKNOWN else Category(_NAMES.get(plain, plain), _PROFILER)


def phase_of(frame: Frame) -> Category | None:
    """Return the training phase that a frame of torch belongs to, or ``None``."""
    name = frame.name
    if "::" in name:
        return next(
            (phase for parts, phase in _NATIVE if all(part in name for part in parts)), None
        )
    path = frame.filename.replace("\\", "/")
    if "/torch/" not in path:
        return None
    return next(
        (
            phase
            for pattern, names, phase in _PATHS
            if (not names or name in names) and pattern.search(path)
        ),
        None,
    )


def find_phase(stack: Iterable[Frame]) -> Category | None:
    """Return the training phase of a stack, given innermost first, or ``None``.

    The innermost phase counts: a forward pass called by an optimizer's closure is a forward pass.
    """
    return next((phase for phase in map(phase_of, stack) if phase is not None), None)


MOST_LAYERS = 6
"""Maximum number of separate layers: as many terminal colors are distinguishable."""
REST_LABELS: dict[Stacking, str] = {
    "site": "other sites",
    "category": "other categories",
    "annotation": "other annotations",
}
MOST_SITES = 5
"""Maximum number of sites to list for one layer at one moment."""


def _total_change(sizes: Sequence[int]) -> int:
    """Return the sum of all changes of a layer's bytes, from none before the first moment."""
    return sum(abs(after - before) for before, after in pairwise((0, *sizes)))


class Layers:
    """The layers of one device's timeline, by one grouping.

    Args:
        device: the device.
        categories: categories of its allocations.
        stacking: grouping that forms the layers.
        moments: events over the whole trace, ascending; the largest groups at any of them become
            separate layers.
    """

    def __init__(
        self,
        device: DeviceData,
        categories: Categories,
        stacking: Stacking,
        moments: Sequence[int],
    ) -> None:
        self._device = device
        self._table = device.allocations
        self._stacks = device.stacks
        self._categories = categories
        self.stacking: Stacking = stacking
        self._sites: dict[int, tuple[str, str]] = {}
        self._named, self._rank = self._largest(moments)

    @property
    def ranks(self) -> Mapping[str, int]:
        """The ranks of the separate layers by key; the largest has rank zero."""
        return self._rank

    def rank_of(self, stack: int) -> int | None:
        """Return the rank of the layer of a stack's site, if it has one; for layers by site.

        A block does not say whether its allocation was recorded: one without a stack then counts
        as allocated before.
        """
        rank = self._rank.get(self._site(stack)[0])
        if rank is None and not stack:
            rank = self._rank.get(self._site(BEFORE_TRACE_STACK)[0])
        return rank

    def label(self, rank: int | None) -> str:
        """Return the label of the layer with a rank, or of the rest."""
        named = (self._named[key] for key, other in self._rank.items() if other == rank)
        return next(named, REST_LABELS[self.stacking])

    def _largest(self, moments: Sequence[int]) -> tuple[dict[str, str], dict[str, int]]:
        """Return the labels of the separate layers by key, the steadiest first, and their ranks.

        The rank of the largest layer is zero. The steadiest layer is lowest, since a layer above a
        changing one moves with it.
        """
        labels: dict[str, str] = {}
        steps: dict[str, list[int]] = defaultdict(lambda: [0] * (len(moments) + 1))
        for row, low, high in self._spanning(moments):
            key, label = self._of(row)
            labels[key] = label
            steps[key][low] += self._table.size[row]
            steps[key][high] -= self._table.size[row]
        totals = {key: list(accumulate(step))[:-1] for key, step in steps.items()}
        most = sorted(totals, key=lambda key: (-max(totals[key]), key))[:MOST_LAYERS]
        steadiest = sorted(most, key=lambda key: (_total_change(totals[key]), key))
        ranks = {key: rank for rank, key in enumerate(most)}
        return {key: labels[key] for key in steadiest}, ranks

    def at(self, moments: Sequence[int], live: Sequence[int]) -> tuple[Layer, ...]:
        """Return the layers at some moments.

        Args:
            moments: strictly ascending events.
            live: requested bytes live right after each of them.
        """
        count = len(moments)
        steps = {key: [0] * (count + 1) for key in self._named}
        by_key: dict[str, Counter[str]] = {key: Counter() for key in self._named}
        category = self._categories.of
        for row, low, high in self._spanning(moments):
            key = self._of(row)[0]
            changes = steps.get(key)
            if changes is None:
                continue
            size = self._table.size[row]
            changes[low] += size
            changes[high] -= size
            by_key[key][category(row).name] += size * (high - low)
        rest = list(live)
        layers = []
        for key, changes in steps.items():
            totals = tuple(accumulate(changes[:-1]))
            rest = [size - layer for size, layer in zip(rest, totals, strict=True)]
            names = tuple(name for name, _ in by_key[key].most_common())
            layers.append(Layer(key, self._named[key], totals, names, self._rank[key]))
        # Negative only if the trace and the blocks disagree, which ``doubts`` reports.
        others = tuple(max(0, left) for left in rest)
        if any(others):
            layers.append(Layer(REST, REST_LABELS[self.stacking], others, ()))
        return tuple(layers)

    def sizes(self, event: int, live: int) -> tuple[LayerSize, ...]:
        """Return the bytes of each layer right after an event, in the order of :meth:`at`.

        Args:
            event: the moment right after it; -1 for before the first.
            live: requested bytes live at that moment.
        """
        size = self._table.size
        sums: Counter[str] = Counter()
        for row in self._table.live_at(event):
            sums[self._of(row)[0]] += size[row]
        named = [LayerSize(key, sums[key]) for key in self._named]
        return (*named, LayerSize(REST, max(0, live - sum(layer.bytes for layer in named))))

    def part(self, key: str, event: int, live: int) -> Part:
        """Return the content of one layer right after an event.

        Args:
            key: key of the layer.
            event: the moment right after it; -1 for before the first.
            live: requested bytes live at that moment.

        Raises:
            KeyError: there is no such layer.
        """
        if key != REST and key not in self._named:
            raise KeyError(f"no layer {key} in the timeline")
        size = self._table.size
        by_stack: Counter[int] = Counter()
        count_of: Counter[int] = Counter()
        by_category: Counter[tuple[str, str]] = Counter()
        for row in self._table.live_at(event):
            layer = self._of(row)[0]
            if layer != key and not (key == REST and layer not in self._named):
                continue
            stack = self._table.stack_number(row)
            by_stack[stack] += size[row]
            count_of[stack] += 1
            category = self._categories.of(row)
            by_category[category.name, category.basis] += size[row]
        largest = max(by_stack, key=lambda stack: by_stack[stack], default=0)
        return Part(
            label=self._named.get(key, REST_LABELS[self.stacking]),
            bytes=by_stack.total(),
            count=count_of.total(),
            live=live,
            categories=tuple((*category, size) for category, size in by_category.most_common()),
            top=self._top(by_stack, count_of, live),
            stack=self._stacks.of(largest),
        )

    def _top(
        self, by_stack: Counter[int], count_of: Counter[int], live: int
    ) -> tuple[SiteRow, ...]:
        sizes: Counter[str] = Counter()
        many: Counter[str] = Counter()
        stack_of: dict[str, int] = {}
        for stack, size in by_stack.most_common():
            key = self._site(stack)[0]
            sizes[key] += size
            many[key] += count_of[stack]
            stack_of.setdefault(key, stack)
        return tuple(
            SiteRow(
                key=key,
                label=self._site(stack_of[key])[1],
                kind=self._stacks.site(stack_of[key]).kind,
                bytes=size,
                count=many[key],
                share=size / live if live else 0.0,
                children=0,
                stack=max(0, stack_of[key]),
            )
            for key, size in sizes.most_common(MOST_SITES)
        )

    def _spanning(self, moments: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return rows live at some of the moments, with the first moment and one past the last."""
        table = self._table
        place = _places(moments, table.events)
        low = array("I", map(place.__getitem__, table.start))
        high = array("I", map(place.__getitem__, table.completed))
        spanning = list(map(lt, low, high))
        rows = compress(range(len(table)), spanning)
        return list(zip(rows, compress(low, spanning), compress(high, spanning), strict=True))

    def _of(self, row: int) -> tuple[str, str]:
        """Return the key and the label of the layer that an allocation belongs to."""
        if self.stacking == "site":
            return self._site(self._table.stack_number(row))
        if self.stacking == "category":
            name = self._categories.of(row).name
            return name, name
        start = self._table.start[row]
        name = annotation_at(self._device, start)
        return name, name

    def _site(self, stack: int) -> tuple[str, str]:
        site = self._sites.get(stack)
        if site is None:
            node = site_node(self._stacks, stack)
            site = self._sites[stack] = node.key, node.label
        return site


def timeline(
    device: DeviceData, layers: Layers, width: int, *, first: int = 0, last: int | None = None
) -> Timeline:
    """Divide events ``first`` to ``last`` (inclusive, the whole trace by default) into buckets.

    Args:
        device: the device.
        layers: layers of its live bytes.
        width: maximum number of buckets; fewer if there are fewer events, so none is empty.
        first: first event, clamped to the trace.
        last: last event, inclusive, clamped to the trace.

    Raises:
        ValueError: ``width`` is below 1.
    """
    replayed, trace = device.replay, device.trace
    events = replayed.events
    end = events - 1 if last is None else min(last, events - 1)
    begin = max(0, min(first, end))
    cut = buckets(replayed, trace, width, begin, end)
    return Timeline(
        device=replayed.device,
        first=begin,
        last=end,
        scale=max(replayed.peak, replayed.reserved_peak),
        buckets=cut,
        begin_us=trace.time_us[0] if len(trace) and trace.time_us[0] != NOT_RECORDED else None,
        peak_event=replayed.peak_event if events else None,
        peak=replayed.peak,
        ooms=tuple(event for event in replayed.ooms if begin <= event <= end),
        ticks=ticks(trace, width, begin, end),
        bands=bands(device.spans, trace, begin, end),
        stacking=layers.stacking,
        layers=layers.at([bucket.moment for bucket in cut], [bucket.live_max for bucket in cut]),
    )


def _places(moments: Sequence[int], events: int) -> array[int]:
    """Return the number of earlier moments for each event from 0 to ``events``, then for -1.

    ``BEFORE``, which is -1, thus works as a negative index.
    """
    place = array("I")
    for number, moment in enumerate(moments):
        place.extend(array("I", [number]) * (moment + 1 - len(place)))
    place.extend(array("I", [len(moments)]) * (events + 1 - len(place)))
    place.append(0)
    return place
