"""Move between tabs and panes."""

from __future__ import annotations

from tui.commands.command import Command
from tui.commands.tabs import EVERYWHERE, WORKBENCH

COMMANDS = (
    Command("go_to_devices", ("v",), "devices", "Go to the devices.", "Screen", WORKBENCH),
    Command("go_to_memory", ("m",), "memory", "Go to the memory pane.", "Screen", WORKBENCH),
    Command("go_to_workloads", ("w",), "workloads", "Go to the table.", "Screen", WORKBENCH),
    Command(
        "show_detail",
        ("i",),
        "detail",
        "Go to the detail of the selected workload: its code, parameters and all figures.",
        "Screen",
        WORKBENCH,
        footer=10,
    ),
    Command(
        "toggle_log",
        ("l",),
        "log",
        "Put the log where the detail is, or the detail where the log is.",
        "Screen",
        WORKBENCH,
        footer=11,
    ),
    Command(
        "go_back",
        ("escape",),
        "back",
        "Go back to the table from a pane that has the screen, undo the zoom, drop the filter.",
        "Screen",
        WORKBENCH,
        now=lambda now: now.can_go_back,
        footer=0,
    ),
    Command(
        "zoom",
        ("Z",),
        "zoom",
        "Give the focused pane the whole screen and fold the others, or undo it.",
        "Screen",
        WORKBENCH,
        footer=15,
    ),
    Command("next_pane", ("tab",), "next pane", "Go to the next pane.", "Screen", EVERYWHERE),
    Command(
        "previous_pane",
        ("shift+tab",),
        "pane before",
        "Go to the pane before.",
        "Screen",
        EVERYWHERE,
    ),
    Command(
        "tab_workbench",
        ("1",),
        "Workbench",
        "Show the workbench.",
        "Screen",
        EVERYWHERE,
        target="app",
    ),
    Command(
        "tab_memory",
        ("2",),
        "Memory",
        "Show the memory of the devices.",
        "Screen",
        EVERYWHERE,
        target="app",
    ),
    Command(
        "tab_snapshot",
        ("3",),
        "Snapshot",
        "Show the allocator snapshot that is read, or open one.",
        "Screen",
        EVERYWHERE,
        target="app",
    ),
    Command(
        "tab_processes",
        ("4",),
        "Processes",
        "Show who holds the memory of the selected device.",
        "Screen",
        EVERYWHERE,
        target="app",
    ),
)
