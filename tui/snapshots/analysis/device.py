"""The data of one device that its analyses share."""

from __future__ import annotations

from functools import cached_property

from tui.snapshots.analysis.allocations import Allocations, allocations
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.layout import Layout, final_layout
from tui.snapshots.analysis.timeline import AnnotationSpan, Cover, Replay, replay, spans
from tui.snapshots.model.snapshot import DeviceSnapshot, Snapshot


class DeviceData:
    """One device of a file, with the tables derived from it, each computed once.

    Args:
        snapshot: the file.
        device: one of its devices.
        stacks: the stacks of the file.
    """

    def __init__(self, snapshot: Snapshot, device: DeviceSnapshot, stacks: Stacks) -> None:
        self.snapshot = snapshot
        self.device = device
        self.stacks = stacks
        self.index = device.index
        self.trace = device.trace

    @cached_property
    def replay(self) -> Replay:
        """Live and reserved bytes over the trace."""
        return replay(self.device)

    @cached_property
    def allocations(self) -> Allocations:
        """The table of the device's allocations."""
        return allocations(self.snapshot, self.device)

    @cached_property
    def spans(self) -> tuple[AnnotationSpan, ...]:
        """The annotations of the device, as spans of time."""
        return spans(self.snapshot.annotations, self.device.index)

    @cached_property
    def cover(self) -> Cover:
        """Which annotation covers a time."""
        return Cover(self.spans)

    @cached_property
    def final(self) -> Layout:
        """The layout of the device at the end of its trace."""
        return final_layout(self.device)
