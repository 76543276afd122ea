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
        "Run the workload or group.",
        group="Runs",
        tabs=(*WORKBENCH, *DEMO),
        changes_state=True,
        now=_can_run,
        footer=1,
    ),
    Command(
        "run_all",
        ("R",),
        "all",
        "Run all, after a confirmation.",
        group="Runs",
        tabs=WORKBENCH,
        changes_state=True,
        now=_can_run,
        footer=2,
    ),
    Command(
        "cancel",
        ("x",),
        "cancel",
        "Cancel the row's runs or comparisons, else all on its host.",
        group="Runs",
        tabs=WORKBENCH,
        changes_state=True,
        now=lambda now: now.pending,
        meaning="end",
        footer=4,
    ),
    Command(
        "cancel_all",
        ("X",),
        "cancel all",
        "Cancel all; results stay.",
        "Runs",
        changes_state=True,
        now=lambda now: now.pending_anywhere,
        target="app",
    ),
    Command(
        "edit_parameters",
        ("equals_sign",),
        "sweep",
        "Edit or sweep parameters.",
        group="Runs",
        tabs=WORKBENCH,
        changes_state=True,
        now=lambda now: now.has_selection,
    ),
    Command(
        "sort_rows",
        ("s",),
        "sort",
        "Sort by the next figure.",
        group="Runs",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads or now.pane == "devices",
    ),
)


DEMO_PAGES = (
    Command(
        "demo",
        ("D",),
        "demo",
        "Show the group page by page.",
        group="Demo",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=17,
    ),
    Command(
        "demo_next",
        ("right", "n"),
        "next",
        "Go to the next page.",
        group="Demo",
        tabs=DEMO,
        footer=3,
    ),
    Command(
        "demo_previous",
        ("left",),
        "previous",
        "Go to the previous page.",
        group="Demo",
        tabs=DEMO,
        footer=4,
    ),
    Command(
        "demo_answer",
        ("enter",),
        "answer",
        "Show the answer to the question.",
        group="Demo",
        tabs=DEMO,
        meaning="open",
        now=lambda now: now.has_question,
        footer=2,
    ),
    Command(
        "demo_leave",
        ("q", "escape"),
        "end",
        "Leave the demo.",
        group="Demo",
        tabs=DEMO,
        meaning="leave",
        footer=20,
    ),
)


BACKEND = (
    Command(
        "go_to_flags",
        ("F",),
        "flags",
        "Go to the flags.",
        group="Backend",
        tabs=WORKBENCH,
        now=lambda now: now.pane != "backend" and now.has_switches,
        footer=6,
    ),
    Command(
        "switch_flag",
        ("space",),
        "switch",
        "Switch the flag and compare.",
        group="Backend",
        tabs=WORKBENCH,
        changes_state=True,
        now=lambda now: now.pane == "backend" and now.has_switches and now.runner_usable,
        meaning="toggle",
        footer=3,
    ),
    Command(
        "compare_again",
        ("c",),
        "compare",
        "Compare off and on; again: more pairs.",
        group="Backend",
        tabs=WORKBENCH,
        changes_state=True,
        now=lambda now: now.has_switches and now.runner_usable,
    ),
)


PANES = (
    Command(
        "go_to_devices", ("v",), "devices", "Go to the devices.", group="Screen", tabs=WORKBENCH
    ),
    Command("go_to_memory", ("m",), "memory", "Go to memory.", group="Screen", tabs=WORKBENCH),
    Command(
        "next_figure",
        ("h",),
        "history",
        "Draw another figure's history.",
        group="Screen",
        tabs=WORKBENCH,
    ),
    Command(
        "go_to_workloads", ("w",), "workloads", "Go to the table.", group="Screen", tabs=WORKBENCH
    ),
    Command(
        "show_detail",
        ("i",),
        "detail",
        "Show the detail; in memory and backend, explain.",
        group="Screen",
        tabs=WORKBENCH,
        footer=11,
    ),
    Command(
        "show_roofline",
        ("O",),
        "roofline",
        "Show the roofline, or the workload again.",
        group="Screen",
        tabs=WORKBENCH,
    ),
    Command(
        "toggle_log",
        ("l",),
        "log",
        "Show the log, or the detail again.",
        group="Screen",
        tabs=WORKBENCH,
    ),
    *(
        Command(
            name,
            (key,),
            label,
            f"Move the focused column's border {label}.",
            group="Screen",
            tabs=WORKBENCH,
            now=lambda now: now.has_columns,
            call=f"move_border({by})",
        )
        for name, key, label, by in (
            ("border_left", "less_than_sign", "left", -1),
            ("border_right", "greater_than_sign", "right", 1),
        )
    ),
    Command(
        "zoom",
        ("Z",),
        "zoom",
        "Zoom the focused pane, or restore the layout.",
        group="Screen",
        tabs=WORKBENCH,
    ),
)
