"""The tabs: keys, titles and order. Each has a door in :mod:`tui.ui.app.tabs`, which opens it."""

from __future__ import annotations

from workloads.protocol.frozen import frozen


@frozen
class Tab:
    """One tab."""

    id: str
    """Of its mode, and of its screen's ``TAB``."""
    key: str
    title: str
    short: str
    """The title where the header is narrow."""
    help: str
    """One sentence."""


TABS = (
    Tab("workbench", "1", "Workbench", "Work", "Show the workbench."),
    Tab("memory", "2", "Memory", "Mem", "Show the memory of the devices."),
    Tab(
        "snapshot",
        "3",
        "Snapshot",
        "Snap",
        "Show the allocator snapshot that is read, or open one.",
    ),
    Tab(
        "processes",
        "4",
        "Processes",
        "Proc",
        "Show who holds the memory of the selected device.",
    ),
    Tab("watch", "5", "Watch", "Watch", "Show a run under the watch, or the runs that are kept."),
    Tab("results", "6", "Results", "Results", "Show what was measured earlier, and compare it."),
)
