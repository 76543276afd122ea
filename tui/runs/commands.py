"""The commands of the workbench: runs, flags, the presentation, its panes."""

from __future__ import annotations

from functools import partial

from tui.kit.commands.command import PRESENT, WORKBENCH, Command, Situation


def _can_run(now: Situation) -> bool:
    return now.runner_usable and now.has_workloads


_NOTHING_PENDING = "nothing runs or waits"
_NOT_RUNNABLE = "not possible; the workloads' first lines say why"
_run_command = partial(Command, group="Runs", tabs=WORKBENCH, changes_state=True)
RUNS = (
    _run_command(
        "run_selected",
        ("r",),
        "run",
        "Run the workload or group.",
        tabs=(*WORKBENCH, *PRESENT),
        now=_can_run,
        otherwise=_NOT_RUNNABLE,
        footer=1,
    ),
    _run_command(
        "run_all",
        ("R",),
        "all",
        "Run all, after a confirmation.",
        now=_can_run,
        otherwise=_NOT_RUNNABLE,
        footer=2,
    ),
    _run_command(
        "cancel",
        ("x",),
        "cancel",
        "Cancel the row's runs, or else its host's.",
        now=lambda now: now.pending,
        otherwise=_NOTHING_PENDING,
        meaning="end",
        footer=4,
    ),
    Command(
        "cancel_all",
        ("X",),
        "cancel all",
        "Cancel all; results stay.",
        group="Runs",
        changes_state=True,
        now=lambda now: now.pending_anywhere,
        otherwise=_NOTHING_PENDING,
        target="app",
    ),
    _run_command(
        "edit_parameters",
        ("equals_sign",),
        "sweep",
        "Edit or sweep parameters.",
        now=lambda now: now.has_selection,
        otherwise="needs a workload under the cursor",
    ),
    Command(
        "sort_rows",
        ("s",),
        "sort",
        "Sort by the next column.",
        group="Runs",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads or now.pane == "devices",
    ),
)


_page_command = partial(Command, group="Presentation", tabs=PRESENT)
PRESENT_PAGES = (
    Command(
        "present",
        ("D",),
        "present",
        "Present the group page by page.",
        group="Presentation",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=17,
    ),
    _page_command("present_next", ("right", "n"), "next", "Go to the next page.", footer=3),
    _page_command("present_previous", ("left",), "previous", "Go to the previous page.", footer=4),
    _page_command(
        "present_answer",
        ("enter",),
        "answer",
        "Show the answer to the question.",
        meaning="open",
        now=lambda now: now.has_question,
        footer=2,
    ),
    _page_command(
        "present_leave", ("q", "escape"), "end", "End the presentation.", meaning="leave", footer=20
    ),
)


_backend_command = partial(Command, group="Backend", tabs=WORKBENCH)
BACKEND = (
    _backend_command(
        "go_to_flags",
        ("F",),
        "flags",
        "Go to the flags.",
        now=lambda now: now.pane != "backend" and now.has_switches,
        footer=6,
    ),
    _backend_command(
        "switch_flag",
        ("space",),
        "switch",
        "Switch the flag and compare.",
        changes_state=True,
        now=lambda now: now.pane == "backend" and now.has_switches and now.runner_usable,
        otherwise="needs a flag under the cursor: F goes to the flags",
        meaning="toggle",
    ),
    _backend_command(
        "compare_again",
        ("c",),
        "compare",
        "Compare off and on; again: more pairs.",
        changes_state=True,
        labels=tuple((pane, "") for pane in ("devices", "memory", "workloads", "detail", "log")),
        footer=3,
        now=lambda now: now.has_switches and now.runner_usable,
    ),
)


_pane_command = partial(Command, group="Screen", tabs=WORKBENCH)
PANES = (
    _pane_command("go_to_devices", ("v",), "devices", "Go to the devices."),
    _pane_command("go_to_memory", ("m",), "memory", "Go to memory."),
    _pane_command("next_figure", ("h",), "history", "Draw another figure's history."),
    _pane_command("go_to_workloads", ("w",), "workloads", "Go to the table."),
    _pane_command(
        "show_detail",
        ("i",),
        "detail",
        "Show the detail, or explain the pane.",
        footer=11,
        earlier=(lambda now: now.has_result, 5),
    ),
    _pane_command("show_roofline", ("O",), "roofline", "Show the roofline, or the workload again."),
    _pane_command("toggle_log", ("l",), "log", "Show the log, or the detail again."),
    *(
        _pane_command(
            name,
            (key,),
            label,
            f"Move the focused column's border {label}.",
            now=lambda now: now.has_columns,
            otherwise="no columns at this width",
            call=f"move_border({by})",
        )
        for name, key, label, by in (
            ("border_left", "less_than_sign", "left", -1),
            ("border_right", "greater_than_sign", "right", 1),
        )
    ),
    _pane_command("zoom", ("Z",), "zoom", "Zoom the focused pane, or restore the layout."),
)
