"""Run workloads, cancel them, edit what they take."""

from __future__ import annotations

from tui.ui.commands.command import DEMO, WORKBENCH, Command, Situation


def _can_run(now: Situation) -> bool:
    return now.runner_usable and now.has_workloads


COMMANDS = (
    Command(
        "run_selected",
        ("r",),
        "run",
        "Run the selected workload on the CPU and the GPU of the table's column; on the heading of "
        "a group, all of the group; in the demo, the page's workload.",
        "Runs",
        (*WORKBENCH, *DEMO),
        asks=True,
        now=_can_run,
        footer=1,
    ),
    Command(
        "run_all",
        ("R",),
        "all",
        "Run every workload that the table lists.",
        "Runs",
        WORKBENCH,
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
        "Runs",
        WORKBENCH,
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
        footer=13,
    ),
    Command(
        "edit_parameters",
        ("equals_sign",),
        "edit",
        "Edit the parameters of the selected workload, or sweep them; enter does it in the table.",
        "Runs",
        WORKBENCH,
        asks=True,
        now=lambda now: now.has_selection,
        footer=6,
    ),
    Command(
        "filter",
        ("slash",),
        "filter",
        "Show only workloads whose name, group or title has all the words typed.",
        "Runs",
        WORKBENCH,
        now=lambda now: now.has_workloads,
        opens_field=True,
        footer=7,
    ),
    Command(
        "sort_workloads",
        ("s",),
        "sort",
        "Sort the table by the next of time, speed-up, share of the limit, peak memory, name and "
        "the catalogue's own order.",
        "Runs",
        WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=17,
    ),
    Command(
        "copy_result",
        ("y",),
        "copy",
        "Send the selected workload's figures as text to the terminal's clipboard (OSC 52) and "
        "into a file.",
        "Runs",
        WORKBENCH,
        now=lambda now: now.has_selection,
        footer=12,
    ),
)
