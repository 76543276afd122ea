"""Views and keys of the snapshot tab, for the registry of commands.

No Textual: the footer, the help and docs/keys.md need them before the tab is opened.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.kit.commands.command import SNAPSHOT, Command, Situation

VERDICT_PANE = "verdict"
"""Id of the pane that shows a verdict."""


def _has_snapshot(now: Situation) -> bool:
    return now.snapshot


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
    files: int = 1
    """Number of files that the view needs: two for a comparison."""

    @property
    def command(self) -> Command:
        """The command that shows it."""
        return Command(
            f"snapshot_{self.id}",
            (self.key,),
            self.title.lower(),
            self.help,
            group="Snapshot",
            tabs=SNAPSHOT,
            now=_has_snapshot,
            call=f"snapshot_view('{self.id}')",
        )


VIEWS = (
    SnapshotView(
        "verdict",
        "W",
        "Verdict",
        "Show why memory ran out, and what used it.",
        "panes:VerdictPane",
    ),
    SnapshotView(
        "timeline",
        "L",
        "Timeline",
        "Show memory over the events.",
        "timeline:TimelinePane",
    ),
    SnapshotView(
        "sites",
        "a",
        "Sites",
        "Show which code allocated the memory.",
        "sites:SitesPane",
    ),
    SnapshotView(
        "flame",
        "f",
        "Flame",
        "Show which calls allocated the memory.",
        "flame:FlamePane",
    ),
    SnapshotView(
        "map",
        "B",
        "Map",
        "Show the blocks of each segment.",
        "map:MapPane",
    ),
    SnapshotView(
        "difference",
        "C",
        "Diff",
        "Show the difference from another snapshot.",
        "sites:DifferencePane",
        files=2,
    ),
)
"""Views in the order of the bar; the tab opens on the first."""

SNAPSHOT_COMMANDS = (
    Command(
        "snapshot_open",
        ("o",),
        "open",
        "Open a snapshot file.",
        group="Snapshot",
        tabs=SNAPSHOT,
        footer=6,
    ),
    Command(
        "snapshot_cancel",
        ("x",),
        "cancel",
        "Cancel reading the snapshot.",
        group="Snapshot",
        meaning="end",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot_loading,
        footer=1,
    ),
    *(view.command for view in VIEWS),
    Command(
        "snapshot_compare",
        ("c",),
        "compare",
        "Compare this snapshot with another file.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=7,
    ),
    Command(
        "snapshot_peak",
        ("p",),
        "peak",
        "Go to the peak of live memory.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=2,
    ),
    Command(
        "snapshot_oom",
        ("n",),
        "next OOM",
        "Go to the next OOM.",
        group="Snapshot",
        meaning="next",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.snapshot_ooms,
        footer=3,
    ),
    Command(
        "snapshot_end",
        ("E",),
        "end",
        "Go to the end of the trace.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=4,
    ),
    Command(
        "snapshot_device",
        ("d",),
        "device",
        "Show the next device.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=9,
    ),
    Command(
        "snapshot_group",
        ("b",),
        "group by",
        "Group by the next criterion, such as site, function, file or category.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "sites", "flame", "difference"),
        footer=5,
    ),
    Command(
        "snapshot_sort",
        ("s",),
        "sort",
        "Sort the sites by bytes, count or name.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane == "sites",
        footer=10,
    ),
    Command(
        "snapshot_search",
        ("slash",),
        "search",
        "Search the sites: text, a /regular expression/ or an address.",
        group="Snapshot",
        meaning="find",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        opens_field=True,
        footer=8,
    ),
    Command(
        "snapshot_zoom_in",
        ("plus",),
        "closer",
        "Zoom in on the cursor.",
        group="Snapshot",
        meaning="more detail",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "map"),
        footer=11,
    ),
    Command(
        "snapshot_zoom_out",
        ("minus",),
        "wider",
        "Zoom out.",
        group="Snapshot",
        meaning="less detail",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "map"),
        footer=12,
    ),
    Command(
        "snapshot_explain",
        ("i",),
        "why",
        "Give the reasons for the verdict and its advice.",
        group="Snapshot",
        tabs=SNAPSHOT,
        meaning="detail",
        now=lambda now: now.snapshot_ooms and now.pane == VERDICT_PANE,
        footer=0,
    ),
    Command(
        "snapshot_text",
        ("I",),
        "OOM text",
        "Paste the exception's message, which has figures that the file lacks.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=13,
    ),
    Command(
        "snapshot_copy",
        ("y",),
        "copy report",
        "Copy a Markdown report to the clipboard (OSC 52) and to a file.",
        group="Snapshot",
        meaning="copy",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=14,
    ),
)
