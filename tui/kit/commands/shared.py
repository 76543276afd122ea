"""The commands that several tabs share."""

from __future__ import annotations

from tui.kit.commands.command import (
    EVERYWHERE,
    PRESENT,
    PROCESS_MEMORY,
    PROCESSES,
    RESULTS,
    SNAPSHOT,
    WATCH,
    WORKBENCH,
    Command,
    Situation,
)


def _can_filter(now: Situation) -> bool:
    if now.tab == "results":
        return now.pane == "results" and not now.replay
    listed = now.has_workloads if now.tab == "workbench" else now.tab == "processes"
    return listed and now.pane != PROCESS_MEMORY


OPENS = (
    ("devices", "details"),
    ("memory", "explain"),
    ("workloads", "edit"),
    ("backend", "switch"),
    ("detail", "measure"),
    ("processes", "details"),
    ("results", "history"),
    ("kept-runs", "open"),
    ("offers", "choose"),
)
"""Effect of Enter, by the id of the pane."""
OPENS_HELP = (
    ("devices", "Show all that is known of the device, or fold the group."),
    ("memory", "Explain the memory."),
    ("workloads", "Edit the parameters, or fold the group."),
    ("backend", "Switch the flag and compare."),
    ("detail", "Measure the limits that the roofline lacks."),
    ("processes", "Show all that is known of the process."),
    ("results", "Show the workload over time."),
    ("kept-runs", "Open the run."),
    ("offers", "Do what the line says."),
)
"""The same in a sentence for the help."""


def _can_open(now: Situation) -> bool:
    if now.typing or now.pane not in dict(OPENS):
        return False
    if now.pane == "detail":
        return now.can_measure_roof and now.runner_usable
    return now.has_result if now.pane == "results" else now.pane != "backend" or now.has_switches


SHARED = (
    Command(
        "open_row",
        ("enter",),
        "open",
        "Open the row, fold the group, or switch the flag.",
        group="Screen",
        tabs=(*WORKBENCH, *SNAPSHOT, *PROCESSES, *WATCH, *RESULTS),
        now=_can_open,
        labels=OPENS,
        helps=OPENS_HELP,
        footer=-4,
    ),
    Command(
        "filter",
        ("slash",),
        "filter",
        "Filter: rows that contain every word.",
        group="Runs",
        tabs=(*WORKBENCH, *PROCESSES, *RESULTS),
        meaning="find",
        now=_can_filter,
        otherwise="no list to filter",
        opens_field=True,
        footer=7,
    ),
    Command(
        "go_back",
        ("escape",),
        "back",
        "Go back, restore the layout, or clear the filter.",
        group="Screen",
        tabs=(*WORKBENCH, *SNAPSHOT, *PROCESSES, *WATCH, *RESULTS),
        meaning="leave",
        now=lambda now: now.can_go_back,
        footer=0,
        earlier=(lambda now: now.tab == "snapshot", -4),
    ),
    Command(
        "copy",
        ("y",),
        "copy",
        "Copy what has focus: clipboard (OSC 52), file.",
        group="Screen",
        tabs=(*WORKBENCH, *PRESENT, "memory", *PROCESSES, *WATCH, *RESULTS),
        now=lambda now: now.pane is not None and not now.typing,
        footer=13,
    ),
    Command(
        "next_pane", ("tab",), "next pane", "Go to the next pane.", group="Screen", tabs=EVERYWHERE
    ),
    Command(
        "previous_pane",
        ("shift+tab",),
        "previous pane",
        "Go to the previous pane.",
        group="Screen",
        tabs=EVERYWHERE,
    ),
)
