"""Of what the live bytes of a timeline consist, column by column: its layers.

Most allocations live and die between two of the moments that are drawn. They are left out by
columns of ``array`` before anything is asked of them, so that a million entries take a fraction of
a second.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, compress
from operator import lt

from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.categories import Categories
from tui.snapshots.analysis.frames import BEFORE_TRACE_STACK, Stacks
from tui.snapshots.analysis.sites import BEFORE_GROUP, site_node
from tui.snapshots.analysis.timeline import Cover
from tui.snapshots.model.results import BEFORE, REST, Layer, Part, Stacking, Top
from tui.snapshots.model.snapshot import Trace

MOST = 6
"""Layers of their own: so many colours of a terminal are told apart."""
REST_LABELS: dict[Stacking, str] = {
    "site": "other sites",
    "category": "other categories",
    "annotation": "other annotations",
}
TOP = 5


class Layers:
    """The layers of one device's timeline, of one kind.

    Args:
        table: its allocations.
        trace: of the same device, for times.
        stacks: of the snapshot.
        categories: of the same allocations.
        cover: gives the annotations; called only where they are asked for.
        stacking: what the layers are.
        moments: events over the whole trace, ascending: what held the most at one of them gets a
            layer of its own.
    """

    def __init__(
        self,
        table: Allocations,
        trace: Trace,
        stacks: Stacks,
        categories: Categories,
        cover: Callable[[], Cover],
        *,
        stacking: Stacking,
        moments: Sequence[int],
    ) -> None:
        self._table = table
        self._trace = trace
        self._stacks = stacks
        self._categories = categories
        self._cover = cover
        self._stacking: Stacking = stacking
        self._sites: dict[int, tuple[str, str]] = {}
        self._named = self._largest(moments)

    def _largest(self, moments: Sequence[int]) -> dict[str, str]:
        """Keys and labels, the steadiest first."""
        labels: dict[str, str] = {}
        steps: dict[str, list[int]] = defaultdict(lambda: [0] * (len(moments) + 1))
        for row, low, high in self._spanning(moments):
            key, label = self._of(row)
            labels[key] = label
            steps[key][low] += self._table.size[row]
            steps[key][high] -= self._table.size[row]
        held = {key: list(accumulate(found))[:-1] for key, found in steps.items()}
        most = sorted(held, key=lambda key: (-max(held[key]), key))[:MOST]
        steadiest = sorted(most, key=lambda key: (-sum(held[key]), key))
        return {key: labels[key] for key in steadiest}

    def at(self, moments: Sequence[int], live: Sequence[int]) -> tuple[Layer, ...]:
        """The layers at some moments.

        Args:
            moments: events, strictly ascending.
            live: requested bytes that were live right after each.
        """
        count = len(moments)
        steps = {key: [0] * (count + 1) for key in self._named}
        told: dict[str, Counter[str]] = {key: Counter() for key in self._named}
        category = self._categories.of
        for row, low, high in self._spanning(moments):
            key = self._of(row)[0]
            found = steps.get(key)
            if found is None:
                continue
            size = self._table.size[row]
            found[low] += size
            found[high] -= size
            told[key][category(row).name] += size * (high - low)
        rest = list(live)
        layers = []
        for key, found in steps.items():
            held = tuple(accumulate(found[:-1]))
            rest = [left - this for left, this in zip(rest, held, strict=True)]
            names = tuple(name for name, _ in told[key].most_common())
            layers.append(Layer(key, self._named[key], held, names))
        # Below zero only where the trace and the blocks do not agree, which a doubt tells.
        others = tuple(max(0, left) for left in rest)
        if any(others):
            layers.append(Layer(REST, REST_LABELS[self._stacking], others, ()))
        return tuple(layers)

    def part(self, key: str, event: int, live: int) -> Part:
        """What one layer held right after an event.

        Args:
            key: of the layer.
            event: -1 stands before the first.
            live: requested bytes that were live then.

        Raises:
            KeyError: there is no such layer.
        """
        if key != REST and key not in self._named:
            raise KeyError(f"no layer {key} in the timeline")
        size, stack_of, start = self._table.size, self._table.stack, self._table.start
        by_stack: Counter[int] = Counter()
        count_of: Counter[int] = Counter()
        by_category: Counter[tuple[str, str]] = Counter()
        for row in self._table.live_at(event):
            this = self._of(row)[0]
            if this != key and not (key == REST and this not in self._named):
                continue
            stack = _stack_number(stack_of[row], start[row])
            by_stack[stack] += size[row]
            count_of[stack] += 1
            category = self._categories.of(row)
            by_category[category.name, category.told_by] += size[row]
        largest = max(by_stack, key=lambda stack: by_stack[stack], default=0)
        return Part(
            label=self._named.get(key, REST_LABELS[self._stacking]),
            bytes=by_stack.total(),
            count=count_of.total(),
            live=live,
            categories=tuple((*told, held) for told, held in by_category.most_common()),
            top=self._top(by_stack, count_of, live),
            stack=self._stacks.of(largest),
        )

    def _top(self, by_stack: Counter[int], count_of: Counter[int], live: int) -> tuple[Top, ...]:
        held: Counter[str] = Counter()
        many: Counter[str] = Counter()
        stack_of: dict[str, int] = {}
        for stack, size in by_stack.most_common():
            key = self._site(stack)[0]
            held[key] += size
            many[key] += count_of[stack]
            stack_of.setdefault(key, stack)
        return tuple(
            Top(
                label=self._site(stack_of[key])[1],
                kind=self._stacks.site(stack_of[key]).kind,
                bytes=size,
                count=many[key],
                share=size / live if live else 0.0,
                stack=max(0, stack_of[key]),
            )
            for key, size in held.most_common(TOP)
        )

    def _spanning(self, moments: Sequence[int]) -> list[tuple[int, int, int]]:
        """Rows that were live at some of the moments, with the first and one past the last."""
        table = self._table
        place = _places(moments, table.events)
        low = array("I", map(place.__getitem__, table.start))
        high = array("I", map(place.__getitem__, table.completed))
        kept = list(map(lt, low, high))
        rows = compress(range(len(table)), kept)
        return list(zip(rows, compress(low, kept), compress(high, kept), strict=True))

    def _of(self, row: int) -> tuple[str, str]:
        """Key and label of the layer that an allocation belongs to."""
        if self._stacking == "site":
            return self._site(_stack_number(self._table.stack[row], self._table.start[row]))
        if self._stacking == "category":
            name = self._categories.of(row).name
            return name, name
        start = self._table.start[row]
        name = BEFORE_GROUP if start == BEFORE else self._cover().at(self._trace.time_us[start])
        return name, name

    def _site(self, stack: int) -> tuple[str, str]:
        found = self._sites.get(stack)
        if found is None:
            node = site_node(self._stacks, stack)
            found = self._sites[stack] = node.key, node.label
        return found


def _stack_number(stack: int, start: int) -> int:
    return BEFORE_TRACE_STACK if not stack and start == BEFORE else stack


def _places(moments: Sequence[int], events: int) -> array[int]:
    """By event from 0 to ``events``: how many of the moments lie before it; last that of -1.

    So ``BEFORE``, which is -1, is found as a negative index.
    """
    place = array("I")
    for number, moment in enumerate(moments):
        place.extend(array("I", [number]) * (moment + 1 - len(place)))
    place.extend(array("I", [len(moments)]) * (events + 1 - len(place)))
    place.append(0)
    return place
