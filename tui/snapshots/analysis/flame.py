"""An icicle of frames: the live memory below each caller, from the outermost frame inwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.sites import site_node
from tui.snapshots.explain.frames import format_frame
from tui.snapshots.model.pictures import AllocationSize, Flame, FlameFrame
from tui.snapshots.model.results import FrameKind

ROOT_LABEL = "live memory"
MOST_DEPTH = 100
"""Levels below the frame that is walked into; deeper frames are left out."""
OWN_SHARE = 0.01
"""Share of the live memory of which a frame must be the site to have its layer's color."""
_Step = tuple[str, str, FrameKind | None, int]
"""Key, label and kind of a frame, and the number of frames hidden between it and its caller."""


@dataclass(slots=True)
class _Node:
    """A frame with everything that was allocated below it."""

    label: str
    kind: FrameKind | None
    hidden: int
    bytes: int = 0
    count: int = 0
    as_site: int = 0
    """Bytes of allocations whose site is this frame."""
    stack: int = 0
    """Number of the stack with the most bytes below it."""
    most: int = -1
    children: dict[str, _Node] = field(default_factory=dict)

    def add(self, size: int, count: int, stack: int) -> None:
        self.bytes += size
        self.count += count
        if size > self.most:
            self.most, self.stack = size, stack


def flame(
    stacks: Stacks,
    by_stack: Mapping[int, tuple[int, int]],
    path: tuple[str, ...] = (),
    *,
    width: int,
    all_frames: bool = False,
    ranks: Mapping[str, int] | None = None,
) -> Flame:
    """Return the frames below one frame that take at least half a cell of a picture.

    Args:
        stacks: stacks of the snapshot.
        by_stack: bytes and number of live allocations by the number of their stack.
        path: keys from the outermost frame to the one that takes the whole width; an unknown path
            counts as far as it is known.
        width: width of the picture in cells, at least 1.
        all_frames: all Python frames instead of those of the user's own code, which are the only
            ones where a stack has any.
        ranks: ranks of the timeline's layers by the keys of their sites.

    Raises:
        ValueError: ``width`` is below 1.
    """
    if width < 1:
        raise ValueError(f"a flame view needs at least one column, not {width}")
    root = _Node(ROOT_LABEL, None, 0)
    for stack, (size, count) in sorted(by_stack.items()):
        node = root
        node.add(size, count, stack)
        site, at_site = site_node(stacks, stack).key, node
        for key, label, kind, hidden in _steps(stacks, stack, all_frames=all_frames):
            node = node.children.setdefault(key, _Node(label, kind, hidden))
            node.add(size, count, stack)
            at_site = node if key == site else at_site
        at_site.as_site += size
    layers = _Layers(ranks or {}, OWN_SHARE * root.bytes)
    ancestors = [root]
    known: list[str] = []
    for key in path:
        if key not in ancestors[-1].children:
            break
        ancestors.append(ancestors[-1].children[key])
        known.append(key)
    within = ancestors[-1]
    frames = [
        _frame(node, tuple(known[:depth]), 0, within.bytes, layers)
        for depth, node in enumerate(ancestors)
    ]
    least = max(1, -(-within.bytes // (2 * width)))
    frames += _below(within, tuple(known), least, layers)
    return Flame(tuple(known), tuple(frames), within.bytes, root.bytes)


def sizes_below(
    stacks: Stacks,
    table: Allocations,
    event: int,
    path: tuple[str, ...],
    *,
    all_frames: bool,
    limit: int,
) -> tuple[AllocationSize, ...]:
    """Return the sizes of the live allocations below a frame: those with the most bytes first.

    Args:
        stacks: stacks of the snapshot.
        table: allocations of the device.
        event: the moment right after it.
        path: keys from the outermost frame to the one below which allocations count.
        all_frames: as for :func:`flame`.
        limit: the most sizes.
    """
    counts: Counter[int] = Counter()
    below: dict[int, bool] = {}
    for row in table.live_at(event):
        stack = table.stack_number(row)
        if stack not in below:
            steps = islice(_steps(stacks, stack, all_frames=all_frames), len(path))
            below[stack] = tuple(step[0] for step in steps) == path
        if below[stack]:
            counts[table.size[row]] += 1
    ordered = sorted(counts, key=lambda size: (-size * counts[size], size))
    return tuple(AllocationSize(size, counts[size]) for size in ordered[:limit])


def _steps(stacks: Stacks, stack: int, *, all_frames: bool) -> Iterator[_Step]:
    """Return the frames of a stack, outermost first; a stack without any has the site's name."""
    if all_frames:
        numbers = [frame for frame in stacks.stack(stack) if stacks.kind(frame) != "native"]
        steps = [(frame, 0) for frame in numbers]
    else:
        steps = list(stacks.path(stack))
    if not steps:
        site = stacks.site(stack)
        yield site.label, site.label, site.kind, 0
        return
    outward = [folded for _, folded in steps]
    # A frame's count is of those between it and the frame that it called.
    hidden = [0, *reversed(outward[1:])]
    for (frame, _), before in zip(reversed(steps), hidden, strict=True):
        yield stacks.key(frame), format_frame(stacks.frames[frame]), stacks.kind(frame), before


@dataclass(frozen=True, slots=True)
class _Layers:
    """The timeline's layers, and the least bytes of which a frame is the site to belong to one."""

    ranks: Mapping[str, int]
    least: float

    def rank_of(self, node: _Node, path: tuple[str, ...]) -> int | None:
        """Return the rank of a frame's layer, if the frame belongs to one."""
        enough = path and node.as_site and node.as_site >= self.least
        return self.ranks.get(path[-1]) if enough else None


def _frame(
    node: _Node, path: tuple[str, ...], start: int, size: int, layers: _Layers
) -> FlameFrame:
    return FlameFrame(
        path=path,
        label=node.label,
        kind=node.kind,
        start=start,
        width=size,
        bytes=node.bytes,
        count=node.count,
        stack=node.stack,
        hidden=node.hidden,
        own=node.bytes - sum(child.bytes for child in node.children.values()),
        rank=layers.rank_of(node, path),
    )


def _below(
    within: _Node, path: tuple[str, ...], least: int, layers: _Layers
) -> Iterable[FlameFrame]:
    """Return the frames below a node, level by level, the largest of each caller first."""
    level = [(within, path, 0)]
    for _ in range(MOST_DEPTH):
        deeper: list[tuple[_Node, tuple[str, ...], int]] = []
        for node, own, begin in level:
            start = begin
            for key, child in sorted(
                node.children.items(), key=lambda child: (-child[1].bytes, child[0])
            ):
                if child.bytes < least:
                    break
                yield _frame(child, (*own, key), start, child.bytes, layers)
                deeper.append((child, (*own, key), start))
                start += child.bytes
        level = deeper
