"""Views and keys of the snapshot tab, for the registry of commands.

No Textual: the footer, the help and docs/keys.md need them before the tab is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tui.kit.commands.command import SNAPSHOT, Command, Situation, always

VERDICT_PANE = "verdict"
"""Id of the pane that shows a verdict."""
STACK_PANES = ("timeline", "sites", "flame", "map")
"""Ids of the panes that show a stack."""


def _has_snapshot(now: Situation) -> bool:
    return now.snapshot


def _has_verdict(now: Situation) -> bool:
    return now.snapshot_ooms and now.pane == VERDICT_PANE


def _has_stack(now: Situation) -> bool:
    if now.pane == "timeline":  # an OOM has a stack even without a history
        return now.snapshot and (now.snapshot_history or now.snapshot_ooms)
    return now.snapshot and now.snapshot_stacks and now.pane in STACK_PANES


def _has_history(now: Situation) -> bool:
    return now.snapshot and now.snapshot_history


def _can_group(now: Situation) -> bool:
    if now.pane == "timeline":
        return _has_history(now)
    if now.pane == "flame":
        return now.snapshot and now.snapshot_stacks
    return now.snapshot and (now.pane == "sites" or (now.pane == "difference" and now.compared))


def _can_zoom(now: Situation) -> bool:
    return _has_history(now) if now.pane == "timeline" else now.snapshot and now.pane == "map"


def _is_alone(now: Situation) -> bool:
    """Return whether the view of differences waits for its second file."""
    return now.pane == "difference" and not now.compared


_ZOOMS = "zooms the timeline and the map"
_NEEDS_HISTORY = "needs a snapshot with a history"

_command = partial(
    Command,
    group="Snapshot",
    tabs=SNAPSHOT,
    now=_has_snapshot,
    otherwise="needs an open snapshot: o opens one",
)


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """One view of the snapshot tab."""

    id: str
    key: str
    title: str
    """The title in the bar of views."""
    help: str
    """One sentence."""
    pane: str
    """The class that draws it, as ``module:Class`` below :mod:`tui.snapshots.screens`. It states
    which methods of the reader it needs in its present state."""

    @property
    def command(self) -> Command:
        """The command that shows it."""
        return _command(
            f"snapshot_{self.id}",
            (self.key,),
            self.title.lower(),
            self.help,
            call=f"snapshot_view('{self.id}')",
        )


VIEWS = (
    SnapshotView(
        "verdict", "W", "Verdict", "Show why memory ran out, and what used it.", "panes:VerdictPane"
    ),
    SnapshotView(
        "timeline", "L", "Timeline", "Show memory over the events.", "timeline:TimelinePane"
    ),
    SnapshotView("sites", "a", "Sites", "Show which code allocated the memory.", "sites:SitesPane"),
    SnapshotView(
        "flame", "f", "Flame", "Show which calls allocated the memory.", "flame:FlamePane"
    ),
    SnapshotView("map", "B", "Map", "Show the blocks of each segment.", "map:MapPane"),
    SnapshotView(
        "difference",
        "C",
        "Diff",
        "Show the difference from another snapshot.",
        "sites:DifferencePane",
    ),
)
"""Views in the order of the bar; the tab opens on the first."""

SNAPSHOT_COMMANDS = (
    _command("snapshot_open", ("o",), "open", "Open a snapshot file.", now=always, footer=6),
    _command(
        "snapshot_cancel",
        ("x",),
        "cancel",
        "Cancel reading the snapshot.",
        meaning="end",
        now=lambda now: now.snapshot_loading,
        otherwise="no file is being read",
        footer=1,
    ),
    *(view.command for view in VIEWS),
    _command(
        "snapshot_compare",
        ("c",),
        "compare",
        "Compare this snapshot with another file.",
        footer=7,
        earlier=(_is_alone, 0),
    ),
    _command(
        "snapshot_peak",
        ("p",),
        "peak",
        "Go to the peak of live memory.",
        now=_has_history,
        otherwise=_NEEDS_HISTORY,
        footer=2,
    ),
    _command(
        "snapshot_oom",
        ("n",),
        "next OOM",
        "Go to the next OOM.",
        meaning="next",
        now=lambda now: now.snapshot and now.snapshot_ooms and now.snapshot_moments,
        otherwise="needs another moment with an OOM",
        footer=3,
    ),
    _command(
        "snapshot_end",
        ("E",),
        "end",
        "Go to the end of the trace.",
        now=_has_history,
        otherwise=_NEEDS_HISTORY,
        footer=4,
    ),
    _command("snapshot_device", ("d",), "device", "Show the next device.", footer=10),
    _command(
        "snapshot_group",
        ("b",),
        "group by",
        "Group by the next criterion, such as site, function, file or category.",
        now=_can_group,
        otherwise="groups sites, flame view, timeline and compared files",
        footer=5,
    ),
    _command(
        "snapshot_sort",
        ("s",),
        "sort",
        "Sort the sites by bytes, count or name.",
        now=lambda now: now.snapshot and now.pane == "sites",
        otherwise="sorts the sites: a shows them",
        footer=11,
    ),
    _command(
        "snapshot_search",
        ("slash",),
        "search",
        "Search the sites: text, a /regular expression/ or an address.",
        meaning="find",
        opens_field=True,
        footer=8,
    ),
    _command(
        "snapshot_zoom_in",
        ("plus",),
        "closer",
        "Zoom in on the cursor.",
        meaning="more detail",
        now=_can_zoom,
        otherwise=_ZOOMS,
        footer=12,
    ),
    _command(
        "snapshot_zoom_out",
        ("minus",),
        "wider",
        "Zoom out.",
        meaning="less detail",
        now=_can_zoom,
        otherwise=_ZOOMS,
        footer=13,
    ),
    _command(
        "snapshot_explain",
        ("i",),
        "why",
        "Give the reasons for the verdict and its advice, or show the whole stack.",
        meaning="detail",
        now=lambda now: _has_verdict(now) or _has_stack(now),
        otherwise="explains the verdict of an OOM: W shows it",
        labels=tuple((pane, "stack") for pane in STACK_PANES),
        footer=9,
        earlier=(_has_verdict, 0),
    ),
    _command(
        "snapshot_text",
        ("I",),
        "OOM text",
        "Paste the exception's message, which has figures that the file lacks.",
        footer=14,
    ),
    _command(
        "snapshot_copy",
        ("y",),
        "copy report",
        "Copy a Markdown report to the clipboard (OSC 52) and to a file.",
        meaning="copy",
        footer=15,
    ),
)
