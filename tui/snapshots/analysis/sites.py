"""The tree of sites: live memory at a moment by the code that requested it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tui.core.text.numbers import size as size_text
from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.frames import Stacks, address_in, matching_frames
from tui.snapshots.analysis.timeline import NO_ANNOTATION
from tui.snapshots.explain.frames import base_name, format_frame
from tui.snapshots.model.results import (
    BEFORE,
    FrameKind,
    Grouping,
    Order,
    SiteListing,
    SiteRow,
)
from tui.snapshots.model.snapshot import NOT_RECORDED, Snapshot

BEFORE_GROUP = "before the recording"
NO_CONTEXT = "no context"
POOL_UNKNOWN = "pool not recorded"

Key = str | int
Sums = dict[tuple[Key, int], list[int]]
"""Bytes and count for each group and stack."""


@dataclass(frozen=True, slots=True)
class Query:
    """Selection and grouping of the live allocations in a tree."""

    event: int | None = None
    """The moment right after it; -1 is before the first, ``None`` the end."""
    grouping: Grouping = "site"
    search: str = ""
    """Text, or an address as ``0x…``, which selects the allocation that contains it. Empty selects
    all."""
    regex: bool = False
    """True if the search is a regular expression."""


@dataclass(frozen=True, slots=True)
class Node:
    """A step from a group or a site to its caller."""

    key: str
    label: str
    kind: FrameKind | None
    folded: int = 0


class SiteTree:
    """The answer to a query; children are computed on demand."""

    def __init__(self, sums: Sums, group: Callable[[Key], Node] | None, stacks: Stacks) -> None:
        self._sums = sums
        self._group = group
        self._stacks = stacks
        self._paths: dict[tuple[Key, int], tuple[Node, ...]] = {}
        self.bytes = sum(entry[0] for entry in sums.values())
        self.count = sum(entry[1] for entry in sums.values())

    def by_stack(self) -> dict[int, tuple[int, int]]:
        """Return bytes and count by the number of the stack."""
        totals: dict[int, tuple[int, int]] = {}
        for (_, stack), (size, count) in self._sums.items():
            before = totals.get(stack, (0, 0))
            totals[stack] = (before[0] + size, before[1] + count)
        return totals

    def __len__(self) -> int:
        """Return an upper bound for the number of children of any node."""
        return len(self._sums)

    def listing(
        self, path: tuple[str, ...] = (), *, order: Order = "bytes", limit: int = 100
    ) -> SiteListing:
        """Return the children of the node that a path of keys leads to; ``()`` is the root.

        Args:
            path: a sequence of :attr:`SiteRow.key`; an unknown path has no children.
            order: largest first, by bytes or by count; by name ascending.
            limit: maximum number of rows; the listing counts the rest.
        """
        depth = len(path)
        rows: dict[str, _GatheredNode] = {}
        for place, (size, count) in self._sums.items():
            nodes = self._path(place)
            if len(nodes) <= depth or any(
                node.key != key for node, key in zip(nodes, path, strict=False)
            ):
                continue
            node = nodes[depth]
            row = rows.get(node.key)
            if row is None:
                row = rows[node.key] = _GatheredNode(node)
            row.add(node, size, count, place[1], nodes[depth + 1 : depth + 2])
        ordered = sorted((row.row(self.bytes) for row in rows.values()), key=_ORDERS[order])
        rest = ordered[limit:]
        return SiteListing(
            path=path,
            rows=tuple(ordered[:limit]),
            more=len(rest),
            more_bytes=sum(row.bytes for row in rest),
            total_bytes=self.bytes,
        )

    def _path(self, place: tuple[Key, int]) -> tuple[Node, ...]:
        nodes = self._paths.get(place)
        if nodes is None:
            group, stack = place
            nodes = _frames_path(self._stacks, stack)
            if self._group is not None:
                nodes = (self._group(group), *nodes)
            self._paths[place] = nodes
        return nodes


class _GatheredNode:
    """Sums of one node of the tree during its computation."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bytes = self._count = 0
        self._most = -1
        self._stack = 0
        self._children: set[str] = set()

    def add(
        self, node: Node, size: int, count: int, stack: int, children: tuple[Node, ...]
    ) -> None:
        self._bytes += size
        self._count += count
        self._children.update(child.key for child in children)
        if size > self._most:
            self._most, self._stack, self._node = size, stack, node

    def row(self, total: int) -> SiteRow:
        return SiteRow(
            key=self._node.key,
            label=self._node.label,
            kind=self._node.kind,
            bytes=self._bytes,
            count=self._count,
            share=self._bytes / total if total else 0.0,
            children=len(self._children),
            stack=max(0, self._stack),
            folded=self._node.folded,
        )


def _by_bytes(row: SiteRow) -> tuple[int, str]:
    return -row.bytes, row.key


def _by_count(row: SiteRow) -> tuple[int, int, str]:
    return -row.count, -row.bytes, row.key


def _by_name(row: SiteRow) -> tuple[str, str]:
    return row.label.casefold(), row.key


_ORDERS: dict[Order, Callable[[SiteRow], tuple[object, ...]]] = {
    "bytes": _by_bytes,
    "count": _by_count,
    "name": _by_name,
}


def site_node(stacks: Stacks, stack: int) -> Node:
    """Return the tree node of the site that a stack is attributed to."""
    return _frames_path(stacks, stack)[0]


def _frames_path(stacks: Stacks, stack: int) -> tuple[Node, ...]:
    path = stacks.path(stack)
    if not path:
        site = stacks.site(stack)
        return (Node(site.label, site.label, site.kind),)
    return tuple(
        Node(stacks.key(frame), format_frame(stacks.frames[frame]), stacks.kind(frame), folded)
        for frame, folded in path
    )


def site_tree(device: DeviceData, query: Query, pools: Mapping[int, int]) -> SiteTree:
    """Compute the tree for a query; some tenths of a second for a million entries.

    Args:
        device: the device.
        query: selection and grouping of the allocations.
        pools: pool numbers of rows without one in the table.

    Raises:
        SearchError: the search pattern is invalid or too costly.
    """
    stacks, table = device.stacks, device.allocations
    rows = _select_rows(table, query)
    matches: Callable[[int], bool] | None = None
    if query.search and (query.regex or address_in(query.search) is None):
        matching = matching_frames(stacks, query.search, regex=query.regex)

        def matches(stack: int) -> bool:
            return any(frame in matching for frame in stacks.stack(stack))

    keys, group = _choose_grouping(device, query.grouping, pools)
    sums = _sum_up(table, rows, keys, matches)
    if query.grouping in ("function", "file"):
        sums = {
            (_site_part(stacks, stack, query.grouping), stack): entry
            for (_, stack), entry in sums.items()
        }
    return SiteTree(sums, group, stacks)


def annotation_at(device: DeviceData, event: int) -> str:
    """Return the annotation that covers an alloc event, which may predate the trace."""
    if event == BEFORE:
        return BEFORE_GROUP if device.allocations.has_history else NO_ANNOTATION
    return device.cover.at(device.trace.time_us[event])


def _select_rows(table: Allocations, query: Query) -> list[int]:
    address = None if query.regex else address_in(query.search)
    rows = table.live_at(table.events - 1 if query.event is None else query.event)
    if address is None:
        return rows
    return [row for row in rows if 0 <= address - table.address[row] < max(1, table.rounded(row))]


def _sum_up(
    table: Allocations,
    rows: list[int],
    keys: Callable[[int], Key] | None,
    matches: Callable[[int], bool] | None,
) -> Sums:
    stack_of, size_of = table.stack_number, table.size
    sums: Sums = {}
    find = sums.get
    for row in rows:
        stack = stack_of(row)
        place: tuple[Key, int] = (0 if keys is None else keys(row), stack)
        entry = find(place)
        if entry is None:
            sums[place] = [size_of[row], 1]
        else:
            entry[0] += size_of[row]
            entry[1] += 1
    if matches is None:
        return sums
    return {place: entry for place, entry in sums.items() if matches(place[1])}


def _site_part(stacks: Stacks, stack: int, part: Grouping) -> str:
    site = stacks.site(stack)
    if site.frame is None:
        return site.label
    return site.frame.name if part == "function" else site.frame.filename


def _choose_grouping(
    device: DeviceData, grouping: Grouping, pools: Mapping[int, int]
) -> tuple[Callable[[int], Key] | None, Callable[[Key], Node] | None]:
    """Return functions for the group of a row and for the node of a group."""
    snapshot, table = device.snapshot, device.allocations
    if grouping == "site":
        return None, None
    if grouping == "function":
        return None, lambda key: Node(str(key), str(key), None)
    if grouping == "file":
        return None, lambda key: Node(str(key), base_name(str(key)), None)
    if grouping == "stream":
        return table.stream.__getitem__, lambda key: _stream_node(snapshot, int(key))
    if grouping == "pool":
        known = table.pool
        return (
            lambda row: known[row] if known[row] != NOT_RECORDED else pools.get(row, NOT_RECORDED),
            lambda key: _pool_node(snapshot, int(key)),
        )
    if grouping == "size class":
        return lambda row: size_class(table.size[row]), lambda key: _size_node(int(key))
    if grouping == "context":
        return table.context.__getitem__, lambda key: _context_node(snapshot, int(key))
    start = table.start
    return (
        lambda row: annotation_at(device, start[row]),
        lambda key: Node(str(key), str(key), None),
    )


def size_class(size: int) -> int:
    """Return 0 for sizes of the small pool (up to 1 MiB), else the next power of two."""
    return 0 if size <= 1 << 20 else (size - 1).bit_length()


def _size_node(power: int) -> Node:
    if power == 0:
        return Node("00", "up to 1.0 MiB (small pool)", None)
    low, high = size_text(1 << (power - 1)), size_text(1 << power)
    return Node(f"{power:02d}", f"above {low}, up to {high}", None)


def _stream_node(snapshot: Snapshot, number: int) -> Node:
    stream = snapshot.streams[number] if number < len(snapshot.streams) else 0
    label = "default stream" if stream == 0 else f"stream {stream:#x}"
    return Node(str(stream), label, None)


def _pool_node(snapshot: Snapshot, number: int) -> Node:
    if number == NOT_RECORDED:
        return Node(POOL_UNKNOWN, POOL_UNKNOWN, None)
    pool = snapshot.pools[number]
    label = "default pool" if pool == (0, 0) else f"private pool {pool[0]}, {pool[1]}"
    return Node(f"{pool[0]},{pool[1]}", label, None)


def _context_node(snapshot: Snapshot, number: int) -> Node:
    label = snapshot.contexts[number] or NO_CONTEXT
    return Node(label, label, None)
