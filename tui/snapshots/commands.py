"""The views of the snapshot tab and all of its keys; the registry of commands collects them.

No Textual: the footer, the help and docs/keys.md need them before the tab is opened.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.kit.commands.command import SNAPSHOT, Command, Situation


def _has_snapshot(now: Situation) -> bool:
    return now.snapshot


@dataclass(frozen=True, slots=True)
class View:
    """One view of the snapshot tab."""

    id: str
    key: str
    title: str
    """In the bar of views."""
    help: str
    """One sentence."""
    pane: str
    """The class that draws it, as ``module:Class`` below :mod:`tui.snapshots.screens`. It states
    which methods of the reader it needs in its present state."""
    files: int = 1
    """How many files it needs: two where it compares."""

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
    View(
        "verdict",
        "v",
        "Verdict",
        "Show why the snapshot's device ran out of memory, and what held it.",
        "panes:VerdictPane",
    ),
    View(
        "timeline",
        "t",
        "Timeline",
        "Show the snapshot's memory over its events.",
        "timeline:TimelinePane",
    ),
    View(
        "sites",
        "s",
        "Sites",
        "Show who held the memory at the moment that is looked at.",
        "sites:SitesPane",
    ),
    View(
        "map",
        "m",
        "Map",
        "Show the blocks of each segment at that moment.",
        "map:MapPane",
    ),
    View(
        "difference",
        "D",
        "Diff",
        "Show what changed from this snapshot to another.",
        "sites:DifferencePane",
        files=2,
    ),
)
"""In the order of the bar; the first is shown when a file is opened."""

SNAPSHOT_COMMANDS = (
    Command(
        "snapshot_open",
        ("o",),
        "open",
        "Choose a snapshot file and read it.",
        group="Snapshot",
        tabs=SNAPSHOT,
        footer=6,
    ),
    Command(
        "snapshot_cancel",
        ("x",),
        "cancel",
        "Stop reading a snapshot.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot_loading,
        footer=1,
    ),
    *(view.command for view in VIEWS),
    Command(
        "snapshot_compare",
        ("c",),
        "compare",
        "Choose another snapshot file and compare this one with it.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=7,
    ),
    Command(
        "snapshot_peak",
        ("p",),
        "peak",
        "Look at the moment of the most live memory.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=2,
    ),
    Command(
        "snapshot_oom",
        ("n",),
        "next OOM",
        "Look at the next event that ran out of memory.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.snapshot_ooms,
        footer=3,
    ),
    Command(
        "snapshot_end",
        ("e",),
        "end",
        "Look at the moment at which the snapshot was taken.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=4,
    ),
    Command(
        "snapshot_device",
        ("d",),
        "device",
        "Look at the snapshot's next device.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=9,
    ),
    Command(
        "snapshot_group",
        ("b",),
        "group by",
        "Group sites or changes by the next of site, function, file, annotation, size class, "
        "stream, pool and context; stack the timeline by site, category or annotation.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "sites", "difference"),
        footer=5,
    ),
    Command(
        "snapshot_sort",
        ("S",),
        "sort",
        "Sort the sites by the next of bytes, count and name.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane == "sites",
        footer=10,
    ),
    Command(
        "snapshot_search",
        ("slash",),
        "search",
        "Search the sites for text, a /regular expression/ or an address.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        opens_field=True,
        footer=8,
    ),
    Command(
        "snapshot_zoom_in",
        ("plus",),
        "closer",
        "In the timeline and the map, look closer at what is under the cursor.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "map"),
        footer=11,
    ),
    Command(
        "snapshot_zoom_out",
        ("minus",),
        "wider",
        "In the timeline and the map, look from further away.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "map"),
        footer=12,
    ),
    Command(
        "snapshot_text",
        ("i",),
        "OOM text",
        "Paste the text of the exception, which has figures that the snapshot lacks.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=13,
    ),
    Command(
        "snapshot_copy",
        ("y",),
        "copy report",
        "Send a report on the device as Markdown to the terminal's clipboard (OSC 52) and into a "
        "file.",
        group="Snapshot",
        tabs=SNAPSHOT,
        now=_has_snapshot,
        footer=14,
    ),
)
