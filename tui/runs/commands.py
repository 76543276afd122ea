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
        "Run the selected workload on the CPU and on the GPU in the table's column; on a "
        "group's heading, run the whole group; in the demo, the page's workload.",
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
        "Run every workload in the table, after confirmation with an estimate of the time.",
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
        "Cancel the selected workload's runs, or in the backend pane the comparisons; without "
        "any, cancel everything; measured results are kept.",
        group="Runs",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.pending,
        meaning="end",
        footer=4,
    ),
    Command(
        "cancel_all",
        ("X",),
        "cancel all",
        "Cancel all active and queued runs; measured results are kept.",
        "Runs",
        asks=True,
        now=lambda now: now.pending,
        target="app",
    ),
    Command(
        "edit_parameters",
        ("equals_sign",),
        "sweep",
        "Edit or sweep the parameters of the selected workload; in the table, enter does the same.",
        group="Runs",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.has_selection,
    ),
    Command(
        "sort_rows",
        ("s",),
        "sort",
        "Change the sort order of the table: time, speed-up, share of the limit, peak memory, "
        "name or catalogue order; in the devices pane: index, load, memory or temperature.",
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
        "Step through the selected workload's group, with one page and a quick run for each "
        "workload; first_steps teaches, with a question at the end of each page.",
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
        "Show the answer to the page's question.",
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
        "Go to the cuDNN, cuBLAS and oneDNN flags.",
        group="Backend",
        tabs=WORKBENCH,
        now=lambda now: now.pane != "backend" and now.has_switches,
        footer=6,
    ),
    Command(
        "switch_flag",
        ("space",),
        "switch",
        "In the backend pane, switch the flag under the cursor and compare the convolutions "
        "with the new and the old setting.",
        group="Backend",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.pane == "backend" and now.has_switches and now.runner_usable,
        meaning="toggle",
        footer=3,
    ),
    Command(
        "compare_again",
        ("c",),
        "compare",
        "Compare the flag under the backend pane's cursor, off and on; press again for more pairs.",
        group="Backend",
        tabs=WORKBENCH,
        asks=True,
        now=lambda now: now.has_switches and now.runner_usable,
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
        "next_figure",
        ("h",),
        "history",
        "Draw the next figure of the selected device's history: load, memory, power, temperature, "
        "PCIe traffic.",
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
        "Go to the detail of the selected workload: code, parameters and all figures; in the "
        "memory pane, explain its figures, in the backend pane, list the warnings.",
        group="Screen",
        tabs=WORKBENCH,
        footer=11,
    ),
    Command(
        "show_roofline",
        ("O",),
        "roofline",
        "Show the roofline of the selected device in the detail, or the workload again.",
        group="Screen",
        tabs=WORKBENCH,
    ),
    Command(
        "toggle_log",
        ("l",),
        "log",
        "Show the log instead of the detail, or the detail again.",
        group="Screen",
        tabs=WORKBENCH,
    ),
    *(
        Command(
            name,
            (key,),
            label,
            f"Move the border of the focused pane's column to the {label}, and remember it; the "
            "mouse drags it, too.",
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
        "Expand the focused pane to the whole screen, or restore the layout.",
        group="Screen",
        tabs=WORKBENCH,
    ),
)
