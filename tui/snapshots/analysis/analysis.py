"""All analyses of a snapshot, with cached intermediate results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tui.snapshots.analysis import moment
from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.flame import flame, sizes_below
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.growth import ComparedState, diff, growth
from tui.snapshots.analysis.layers import Categories, Layers, timeline
from tui.snapshots.analysis.layout import Filled, Layout, layout_at, pools_of_rows
from tui.snapshots.analysis.moment import (
    cells,
    find_widest_window,
    map_rows,
    pieces,
    pinning,
    sites_in_use,
)
from tui.snapshots.analysis.sites import Query, SiteTree, site_tree
from tui.snapshots.analysis.summary import check, summary
from tui.snapshots.analysis.timeline import buckets
from tui.snapshots.explain.evidence import Growth
from tui.snapshots.model.pictures import (
    AllocationSize,
    Cell,
    Flame,
    LayerSize,
    MapRow,
    Piece,
    Pinning,
    SiteInUse,
    Stacking,
    Timeline,
)
from tui.snapshots.model.results import (
    Difference,
    Entry,
    Grouping,
    Part,
    SiteRow,
    State,
    Summary,
)
from tui.snapshots.model.snapshot import DeviceSnapshot, Snapshot

TOP = 10
COLUMNS = 256
"""Number of moments over the whole trace that decide which layers are shown separately."""


class DeviceAnalysis(DeviceData):
    """One device of a file. Events are indices into its trace; ``None`` is the end."""

    def __init__(self, snapshot: Snapshot, device: DeviceSnapshot, stacks: Stacks) -> None:
        super().__init__(snapshot, device, stacks)
        self._layout: tuple[int | None, Layout] | None = None
        self._tree: tuple[Query, SiteTree] | None = None
        self._layers: dict[Stacking, Layers] = {}
        self._in_use: tuple[Layout, tuple[SiteInUse, ...]] | None = None

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """Inconsistencies of the device's data, one line for each kind."""
        return check(self.device, self.allocations, self.replay)

    @cached_property
    def categories(self) -> Categories:
        """The recorded purposes of the allocations."""
        return Categories(self)

    def layers(self, stacking: Stacking) -> Layers:
        """Return the layers of the timeline's live bytes."""
        if stacking not in self._layers:
            last = self.replay.events - 1
            cut = buckets(self.replay, self.trace, COLUMNS, 0, last)
            moments = [bucket.moment for bucket in cut]
            self._layers[stacking] = Layers(self, self.categories, stacking, moments)
        return self._layers[stacking]

    def part(self, event: int | None, stacking: Stacking, key: str) -> Part:
        """Return the contents of one layer of the timeline right after an event.

        Raises:
            KeyError: there is no such layer.
            IndexError: the trace has no such event.
        """
        at = self.replay.events - 1 if event is None else event
        self._check(at)
        return self.layers(stacking).part(key, at, self.replay.live_at(at))

    def layer_sizes(self, event: int | None, stacking: Stacking) -> tuple[LayerSize, ...]:
        """Return the sizes of the timeline's layers right after an event.

        Raises:
            IndexError: the trace has no such event.
        """
        at = self.replay.events - 1 if event is None else event
        self._check(at)
        return self.layers(stacking).sizes(at, self.replay.live_at(at))

    def layout(self, event: int | None) -> Layout:
        """Return the memory layout right after an event; the latest layout is cached.

        Raises:
            IndexError: the trace has no such event.
        """
        if event is None or event == self.replay.events - 1:
            return self.final
        self._check(event)
        if self._layout is None or self._layout[0] != event:
            layout = layout_at(self.snapshot, self.device, self.replay, self.allocations, event)
            self._layout = (event, layout)
        return self._layout[1]

    def entry(self, event: int) -> Entry:
        """Return one entry of the trace.

        Raises:
            IndexError: the trace has no such event.
        """
        return moment.read_entry(self, event)

    def state(self, event: int | None = None) -> State:
        """Return the figures right after an event; -1 stands before the first.

        Raises:
            IndexError: the trace has no such event.
        """
        entry = None if event is None or event < 0 else self.entry(event)
        return moment.compute_state(self.replay, self.layout(event), event, entry)

    def sites(self, query: Query) -> SiteTree:
        """Return the tree that answers a query; the latest tree is cached.

        Raises:
            SearchError: a bad or too costly pattern.
        """
        if self._tree is None or self._tree[0] != query:
            self._tree = (query, site_tree(self, query, self._pools(query)))
        return self._tree[1]

    def flame(
        self, event: int | None, path: tuple[str, ...], width: int, *, all_frames: bool = False
    ) -> Flame:
        """Return the frames that allocated the memory that is live right after an event."""
        stacks = self.sites(Query(event=event)).by_stack()
        ranks = self.layers("site").ranks
        return flame(self.stacks, stacks, path, width=width, all_frames=all_frames, ranks=ranks)

    def sizes(
        self, event: int | None, path: tuple[str, ...], limit: int, *, all_frames: bool = False
    ) -> tuple[AllocationSize, ...]:
        """Return the sizes of what is live below a frame of the flame view."""
        at = self.replay.events - 1 if event is None else event
        self._check(at)
        table = self.allocations
        return sizes_below(self.stacks, table, at, path, all_frames=all_frames, limit=limit)

    def top(self, event: int | None, limit: int = TOP) -> tuple[SiteRow, ...]:
        """Return the sites that held the most memory right after an event."""
        return self.sites(Query(event=event)).listing(limit=limit).rows

    def growth(self, event: int | None) -> Growth | None:
        """Return the site that grew until an event, or ``None``."""
        return growth(self, event)

    def timeline(
        self,
        width: int,
        *,
        stacking: Stacking = "site",
        first: int = 0,
        last: int | None = None,
    ) -> Timeline:
        """Return the memory over the events, in columns.

        Raises:
            ValueError: no columns.
        """
        return timeline(self, self.layers(stacking), width, first=first, last=last)

    def summary(self, *, top: int = TOP) -> Summary:
        """Summarize the device."""
        return summary(self, self.top(self.replay.peak_moment, top), self.growth(None))

    def map_rows(self, event: int | None = None) -> tuple[MapRow, ...]:
        """Return the segments right after an event."""
        return map_rows(self.layout(event))

    def cells(
        self,
        event: int | None,
        row: int,
        width: int,
        *,
        start: int | None = None,
        end: int | None = None,
    ) -> tuple[Cell, ...]:
        """Return a segment, by its row index, or a part of its addresses, as cells."""
        rank_of = self.layers("site").rank_of
        return cells(self._part(event, row), width, start=start, end=end, rank_of=rank_of)

    def in_use(self, event: int | None, rows: Iterable[int] | None = None) -> tuple[SiteInUse, ...]:
        """Return what is in use in segments, by their row indices, or in all, by site.

        The latest answer for all segments is cached.
        """
        layout, layers = self.layout(event), self.layers("site")
        if rows is not None:
            parts = [layout.filled[row] for row in rows]
            return sites_in_use(parts, layers.rank_of, layers.label)
        if self._in_use is None or self._in_use[0] is not layout:
            found = sites_in_use(layout.filled, layers.rank_of, layers.label)
            self._in_use = (layout, found)
        return self._in_use[1]

    def pieces(self, event: int | None, row: int) -> tuple[Piece, ...]:
        """Return the blocks and gaps of a segment, by its row index."""
        return pieces(self._part(event, row), self.stacks)

    def pinning(self, event: int | None, row: int, most: int) -> Pinning | None:
        """Return the blocks of a segment, ``most`` at most, whose release frees the longest span.

        Return ``None`` if the segment is not in use at all.
        """
        part = self._part(event, row)
        window = find_widest_window(part, most)
        if window is None:
            return None
        at = self.replay.events - 1 if event is None else event
        return pinning(self, window, part.largest, at)

    def _pools(self, query: Query) -> dict[int, int]:
        """Return pools by row, for entries before torch 2.12, which do not record them."""
        if query.grouping != "pool":
            return {}
        return pools_of_rows(self.snapshot, self.layout(query.event))

    def _part(self, event: int | None, row: int) -> Filled:
        return self.layout(event).filled[row]

    def _check(self, event: int) -> None:
        if not -1 <= event < self.replay.events:
            raise IndexError(
                f"device {self.index} has no event {event}: its trace has"
                f" {self.replay.events} entries"
            )


class Analysis:
    """One snapshot file, with an analysis of each of its devices."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.stacks = Stacks(snapshot)
        self.devices = {
            device.index: DeviceAnalysis(snapshot, device, self.stacks)
            for device in snapshot.devices
        }

    @property
    def faults(self) -> tuple[str, ...]:
        """Inconsistencies of the file; empty for a consistent file."""
        return tuple(line for device in self.devices.values() for line in device.faults)

    def side(
        self, index: int, *, at_peak: bool = False, grouping: Grouping = "site"
    ) -> ComparedState:
        """Return one device at the end or at its peak, for a comparison.

        Raises:
            KeyError: the file has no such device.
        """
        device = self.devices[index]
        event = device.replay.peak_moment if at_peak else None
        return ComparedState(
            f"{self.snapshot.file}, device {index}, {'peak' if at_peak else 'end'}",
            device.sites(Query(event=event, grouping=grouping)),
            device.replay.reserved[-1] if event is None else device.replay.reserved_at(event),
        )


def compare(
    a: Analysis, b: Analysis, *, at_peak: bool = False, grouping: Grouping = "site"
) -> dict[int, Difference]:
    """Return the difference of each device that both files have."""
    return {
        index: diff(
            a.side(index, at_peak=at_peak, grouping=grouping),
            b.side(index, at_peak=at_peak, grouping=grouping),
        )
        for index in sorted(a.devices.keys() & b.devices.keys())
    }
