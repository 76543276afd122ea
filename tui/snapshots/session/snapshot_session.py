"""The state of the snapshot tab: files, device, moment, view, grouping and search. No Textual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tui.snapshots.commands import VIEWS
from tui.snapshots.model.pictures import Stacking
from tui.snapshots.model.results import Grouping, Order, Summary, lacks_sites
from tui.snapshots.session.snapshot_reader import SnapshotReader

GROUPINGS: tuple[Grouping, ...] = (
    "site",
    "function",
    "file",
    "annotation",
    "size class",
    "stream",
    "pool",
    "context",
)
STACKINGS: tuple[Stacking, ...] = ("site", "category", "annotation")
ORDERS: tuple[Order, ...] = ("bytes", "count", "name")
Option = TypeVar("Option")


def _following(present: Option, options: Sequence[Option]) -> Option:
    """Return the option after the present one, or the first after the last."""
    return options[(options.index(present) + 1) % len(options)]


@dataclass(frozen=True, slots=True)
class Focus:
    """The selected device and moment."""

    device: int
    event: int | None
    """The state right after it; -1 is before the first, ``None`` the end."""


def choose_first_focus(summary: Summary) -> Focus:
    """Return the first moment to show: the last OOM, else the peak, else the end."""
    if summary.ooms:
        return Focus(summary.device, summary.ooms[-1])
    return Focus(summary.device, find_peak(summary))


def find_peak(summary: Summary) -> int | None:
    """Return the event of the peak, -1 if before the first, or ``None`` without a trace."""
    if not summary.events:
        return None
    return -1 if summary.live_peak_event is None else summary.live_peak_event


def find_next_oom(summary: Summary, event: int | None) -> int:
    """Return the next of a device's OOMs, wrapping to the first."""
    later = [oom for oom in summary.ooms if event is not None and oom > event]
    return later[0] if later else summary.ooms[0]


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that was opened, with its exception."""

    path: str
    oom_text: str
    text_source: str


class SnapshotSession:
    """The state behind the snapshot screen.

    Args:
        main: reads the open file.
        both: reads the open file and another one, to compare them.
    """

    def __init__(self, main: SnapshotReader, both: SnapshotReader) -> None:
        self.main = main
        self.both = both
        self.view = VIEWS[0].id
        """Id of the visible view."""
        self.focus: Focus | None = None
        self.grouping: Grouping = "site"
        self.stacking: Stacking = "site"
        """The grouping of the timeline's layers."""
        self.all_frames = False
        """The flame view shows all Python frames, instead of the user's own."""
        self.order: Order = "bytes"
        self.search = ""
        """The search as typed."""
        self.compared_at_peak = False
        self.text_source = ""
        """The origin of the exception's text; empty without one."""
        self._read_before: OpenedFile | None = None
        """The last file that was read before the present one."""
        self._changed: Callable[[], None] = lambda: None
        main.listen(self._focus_first)
        both.listen(self._focus_first)

    def listen(self, changed: Callable[[], None]) -> None:
        """Set the function to call after each change."""
        self._changed = changed

    def _focus_first(self) -> None:
        if self.focus is None and self.main.store.loaded is not None:
            devices = self.main.store.loaded.devices
            # Users open a file because of the device that ran out of memory.
            with_oom = [summary for summary in devices if summary.ooms]
            busiest = sorted(devices, key=lambda summary: -summary.reserved)
            for summary in (with_oom or busiest)[:1]:
                self.focus = choose_first_focus(summary)
        self._changed()

    # ---- files ----

    def open(self, path: str, oom_text: str = "", text_source: str = "") -> None:
        """Read another file.

        Args:
            path: path of the file.
            oom_text: messages of exceptions that belong to it.
            text_source: the origin of the messages, if the user did not enter them.
        """
        if self.ready:
            store = self.main.store
            self._read_before = OpenedFile(store.paths[0], store.oom_text, self.text_source)
        self.focus = None
        self.text_source = text_source
        self.search = ""
        self.all_frames = False
        self.view = VIEWS[0].id
        self.main.open([path], oom_text)

    @property
    def replaced(self) -> OpenedFile | None:
        """The file that was open before another one could not be read; else ``None``."""
        failed = not self.ready and not self.loading
        return self._read_before if failed else None

    def reopen(self, file: OpenedFile) -> None:
        """Read an earlier file again, with its exception."""
        self.open(file.path, file.oom_text, file.text_source)

    def compare_with(self, path: str) -> None:
        """Read the open file and another one in a second reader."""
        self.both.open([*self.main.store.paths, path])

    def cancel(self) -> None:
        """End the readers that are still loading."""
        self.main.cancel()
        self.both.cancel()

    @property
    def loading(self) -> bool:
        """True while a reader loads its files."""
        return "loading" in (self.main.store.status, self.both.store.status)

    @property
    def ready(self) -> bool:
        """True if a file was loaded, even if its reader has died since."""
        return self.main.store.loaded is not None

    @property
    def has_ooms(self) -> bool:
        """True if the selected device ran out of memory."""
        return self.summary is not None and bool(self.summary.ooms)

    @property
    def has_history(self) -> bool:
        """True if the file has a history of the selected device's memory."""
        return self.summary is not None and not self.summary.lacks_history

    @property
    def has_moments(self) -> bool:
        """True if there are several moments to go to: a history, or several OOMs."""
        return self.has_history or (self.summary is not None and len(self.summary.ooms) > 1)

    @property
    def has_stacks(self) -> bool:
        """True if the file says which code allocated the memory of the selected device."""
        known = self.summary is not None and not lacks_sites(self.summary.top)
        return self.has_history or known

    async def stop(self) -> None:
        """End both readers."""
        await self.main.stop()
        await self.both.stop()

    # ---- the moment ----

    @property
    def summary(self) -> Summary | None:
        """The summary of the selected device."""
        return None if self.focus is None else self.main.store.summary(self.focus.device)

    def go_to(self, event: int | None) -> None:
        """Go to a moment; an event after the last one means the end."""
        summary = self.summary
        if self.focus is None or summary is None:
            return
        if event is not None:
            event = max(-1, event)
            event = None if event >= summary.events else event
        self.focus = Focus(self.focus.device, event)
        self._changed()

    def go_to_share(self, share: float) -> None:
        """Go to the event at a share of the trace; 0 is its first event, 1 its last."""
        if self.summary is not None and self.summary.events:
            self.go_to(round(share * (self.summary.events - 1)))

    def next_device(self) -> None:
        """Go to the next device's first moment of interest."""
        loaded = self.main.store.loaded
        if self.focus is None or loaded is None:
            return
        indices = [summary.device for summary in loaded.devices]
        device = _following(self.focus.device, indices)
        self.focus = choose_first_focus(loaded.devices[indices.index(device)])
        self._changed()

    def to_peak(self) -> None:
        """Go to the peak, and compare two files at their peaks."""
        self.compared_at_peak = True
        if self.summary is not None:
            self.go_to(find_peak(self.summary))

    def to_end(self) -> None:
        """Go to the end, and compare two files at their ends."""
        self.compared_at_peak = False
        self.go_to(None)

    def to_next_oom(self) -> None:
        """Go to the next OOM."""
        if self.summary is not None and self.focus is not None and self.has_ooms:
            self.go_to(find_next_oom(self.summary, self.focus.event))

    # ---- how it is shown ----

    def show(self, view: str) -> None:
        """Show another view."""
        self.view = view
        self._changed()

    def next_grouping(self) -> None:
        """Select the next grouping; the timeline and the flame view have their own."""
        if self.view == "flame":
            self.all_frames = not self.all_frames
        elif self.view == "timeline":
            self.stacking = _following(self.stacking, STACKINGS)
        else:
            self.grouping = _following(self.grouping, GROUPINGS)
        self._changed()

    def next_order(self) -> None:
        """Select the next sort order."""
        self.order = _following(self.order, ORDERS)
        self._changed()

    def search_for(self, typed: str) -> None:
        """Show only matching sites."""
        self.search = typed
        self._changed()
