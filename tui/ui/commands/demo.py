"""Step through a group of workloads."""

from __future__ import annotations

from tui.ui.commands.command import DEMO, WORKBENCH, Command

COMMANDS = (
    Command(
        "demo",
        ("D",),
        "demo",
        "Step through the selected workload's group, a page and a quick run for each.",
        "Demo",
        WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=16,
    ),
    Command("demo_next", ("n", "right"), "next", "Turn to the next page.", "Demo", DEMO, footer=3),
    Command(
        "demo_previous",
        ("p", "left"),
        "previous",
        "Turn back to the page before.",
        "Demo",
        DEMO,
        footer=4,
    ),
    Command(
        "demo_leave",
        ("q", "escape"),
        "end",
        "Leave the demo.",
        "Demo",
        DEMO,
        footer=19,
    ),
)
