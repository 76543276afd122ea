"""The line over a snapshot: its views with their keys, its file, device and trouble. Pure."""

from __future__ import annotations

from tui.session.snapshot.session import SnapshotDesk, View
from tui.snapshots.analysis.frames import base_name
from tui.ui.views.lines import Line, Span, Tone, fit, line, width

TITLES: tuple[tuple[View, str, str], ...] = (
    ("verdict", "v", "Verdict"),
    ("timeline", "t", "Timeline"),
    ("sites", "s", "Sites"),
    ("map", "m", "Map"),
    ("difference", "D", "Diff"),
)


def bar_line(desk: SnapshotDesk, cells: int) -> Line:
    """The views that can be shown, then as much as there is room for."""
    shown = views_line(desk) if desk.ready else line(Span(" Snapshot", Tone.STRONG))
    store = desk.main.store
    words = ""
    if store.status == "failed" and desk.ready:
        words = f"! {store.reason}"
    elif store.paths:
        words = base_name(store.paths[0])
        if desk.focus is not None and store.loaded is not None and len(store.loaded.devices) > 1:
            words = f"device {desk.focus.device} of {len(store.loaded.devices)}  {words}"
    tone = Tone.BAD if words.startswith("!") else Tone.QUIET
    return (*shown, Span("  "), Span(fit(words, cells - width(shown) - 2), tone))


def views_line(desk: SnapshotDesk) -> Line:
    """The open one is marked."""
    return tuple(
        Span(f" {key} {title} ", Tone.CURSOR if view == desk.view else Tone.QUIET)
        for view, key, title in TITLES
    )


def view_at(x: int) -> View | None:
    """The view whose title is under a column."""
    start = 0
    for view, key, title in TITLES:
        end = start + len(f" {key} {title} ")
        if start <= x < end:
            return view
        start = end
    return None
