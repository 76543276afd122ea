"""The switches of cuDNN and oneDNN, and whether they matter."""

from __future__ import annotations

from tui.ui.commands.command import WORKBENCH, Command

COMMANDS = (
    Command(
        "go_to_flags",
        ("b",),
        "flags",
        "Go to the switches of cuDNN and oneDNN.",
        "Backend",
        WORKBENCH,
        now=lambda now: now.pane != "backend" and now.has_switches,
        footer=3,
    ),
    Command(
        "switch_flag",
        ("space",),
        "switch",
        "In the backend pane, switch the flag under the cursor and compare the convolutions, new "
        "setting against old.",
        "Backend",
        WORKBENCH,
        asks=True,
        now=lambda now: now.pane == "backend" and now.has_switches and now.runner_usable,
        footer=3,
    ),
    Command(
        "compare_again",
        ("c",),
        "compare",
        "Compare off and on of the flag under the backend pane's cursor again, with more pairs.",
        "Backend",
        WORKBENCH,
        asks=True,
        now=lambda now: now.has_switches and now.runner_usable,
        footer=5,
    ),
)
