"""The commands of the workbench: runs, flags, the demo, its panes."""

from __future__ import annotations

from tui.kit.commands.command import DEMO, WORKBENCH, Command, Situation


def _can_run(now: Situation) -> bool:
    return now.runner_usable and now.has_workloads


RUNS = (
    Command(
        "run_selected",
        ("r",),
        "run",
        "Run the selected workload on the CPU and the GPU of the table's column; on the heading of "
        "a group, all of the group; in the demo, the page's workload.",
        group="Runs",
        tabs=(*WORKBENCH, *DEMO),
        asks=True,
        now=_can_run,
        footer=1,
    ),
    Command(
        "run_all",
        ("R",),
        "all",
        "Run every workload that the table lists, after asking and with an estimate of the time.",
        group="Runs",
        tabs=WORKBENCH,
        asks=True,
        now=_can_run,
        footer=2,
    ),
    Command(
        "cancel",
        ("x",),
        "cancel",
        "Cancel what runs or waits of the selected workload, in the backend pane the comparisons, "
        "and where there is none of these, everything; what was measured is kept.",
        group="Runs",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.pending,
        footer=4,
    ),
    Command(
        "cancel_all",
        ("X",),
        "cancel all",
        "Cancel everything that runs or waits; what was measured is kept.",
        "Runs",
        asks=True,
        now=lambda now: now.pending,
        footer=14,
        target="app",
    ),
    Command(
        "edit_parameters",
        ("equals_sign",),
        "edit, sweep",
        "Edit the parameters of the selected workload, or sweep them; enter does it in the table.",
        group="Runs",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.has_selection,
        footer=5,
    ),
    Command(
        "sort_rows",
        ("s",),
        "sort",
        "Sort the table by the next of time, speed-up, share of the limit, peak memory, name and "
        "the catalogue's own order, or the devices, while keys go to them, by the next of index, "
        "load, memory and heat.",
        group="Runs",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads or now.pane == "devices",
        footer=18,
    ),
    Command(
        "copy_result",
        ("y",),
        "copy",
        "Send the selected workload's figures as text to the terminal's clipboard (OSC 52) and "
        "into a file.",
        group="Runs",
        tabs=WORKBENCH,
        now=lambda now: now.has_selection,
        footer=13,
    ),
)


DEMO_PAGES = (
    Command(
        "demo",
        ("D",),
        "demo",
        "Step through the selected workload's group, a page and a quick run for each.",
        group="Demo",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=17,
    ),
    Command(
        "demo_next",
        ("n", "right"),
        "next",
        "Turn to the next page.",
        group="Demo",
        tabs=DEMO,
        footer=3,
    ),
    Command(
        "demo_previous",
        ("p", "left"),
        "previous",
        "Turn back to the page before.",
        group="Demo",
        tabs=DEMO,
        footer=4,
    ),
    Command(
        "demo_leave",
        ("q", "escape"),
        "end",
        "Leave the demo.",
        group="Demo",
        tabs=DEMO,
        footer=20,
    ),
)


BACKEND = (
    Command(
        "go_to_flags",
        ("b",),
        "flags",
        "Go to the switches of cuDNN and oneDNN.",
        group="Backend",
        tabs=WORKBENCH,
        now=lambda now: now.pane != "backend" and now.has_switches,
        footer=6,
    ),
    Command(
        "switch_flag",
        ("space",),
        "switch",
        "In the backend pane, switch the flag under the cursor and compare the convolutions, new "
        "setting against old.",
        group="Backend",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.pane == "backend" and now.has_switches and now.runner_usable,
        footer=3,
    ),
    Command(
        "compare_again",
        ("c",),
        "compare",
        "Compare the flag under the backend pane's cursor, off and on, again with more pairs.",
        group="Backend",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.has_switches and now.runner_usable,
        footer=8,
    ),
)


PANES = (
    Command(
        "go_to_devices", ("v",), "devices", "Go to the devices.", group="Screen", tabs=WORKBENCH
    ),
    Command(
        "go_to_memory", ("m",), "memory", "Go to the memory pane.", group="Screen", tabs=WORKBENCH
    ),
    Command(
        "go_to_workloads", ("w",), "workloads", "Go to the table.", group="Screen", tabs=WORKBENCH
    ),
    Command(
        "show_detail",
        ("i",),
        "detail",
        "Go to the detail of the selected workload: its code, parameters and all figures.",
        group="Screen",
        tabs=WORKBENCH,
        footer=11,
    ),
    Command(
        "show_roofline",
        ("f",),
        "roofline",
        "Show the roofline of the selected device in the detail: what was measured, below its "
        "limits; again shows the workload.",
        group="Screen",
        tabs=WORKBENCH,
    ),
    Command(
        "toggle_log",
        ("l",),
        "log",
        "Show the log in place of the detail, or the detail again.",
        group="Screen",
        tabs=WORKBENCH,
        footer=12,
    ),
    Command(
        "zoom",
        ("Z",),
        "zoom",
        "Give the focused pane the whole screen and fold the others, or undo it.",
        group="Screen",
        tabs=WORKBENCH,
        footer=16,
    ),
)
