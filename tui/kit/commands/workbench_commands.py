"""The workbench's commands: runs, switches, devices and memory, its panes."""

from __future__ import annotations

from tui.kit.commands.command import (
    DEMO,
    EVERYWHERE,
    PROCESSES,
    RESULTS,
    TABS,
    WATCH,
    WORKBENCH,
    Command,
    Situation,
)


def _can_run(now: Situation) -> bool:
    return now.runner_usable and now.has_workloads


PROCESS_MEMORY = "process-memory"
"""The pane that has the place of the processes while one of them is looked at."""


def _can_filter(now: Situation) -> bool:
    if now.tab == "results":
        return now.pane == "results" and not now.replay
    listed = now.has_workloads if now.tab == "workbench" else now.tab == "processes"
    return listed and now.pane != PROCESS_MEMORY


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
        "filter",
        ("slash",),
        "filter",
        "Show only workloads whose name, group or title has all the words typed, processes whose "
        "GPU, user or command has them, or results that fit them, as matmul torch=2.12.",
        group="Runs",
        tabs=(*WORKBENCH, *PROCESSES, *RESULTS),
        now=_can_filter,
        opens_field=True,
        footer=7,
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


DEVICES = (
    Command(
        "next_device",
        ("d",),
        "device",
        "Select the next device: the memory pane and the table's GPU column show it.",
        "Devices and memory",
        now=lambda now: now.pane != PROCESS_MEMORY,
        footer=10,
        target="app",
    ),
    Command(
        "empty_cache",
        ("e",),
        "empty cache",
        "Empty the cache of torch's allocator on the selected device (torch.cuda.empty_cache).",
        group="Devices and memory",
        tabs=(*WORKBENCH, "memory"),
        asks=True,
        now=lambda now: now.has_worker,
        footer=9,
        target="app",
    ),
    Command(
        "reset_peaks",
        ("p",),
        "reset peaks",
        "Reset the selected device's peaks, torch's and the sampled ones.",
        group="Devices and memory",
        tabs=(*WORKBENCH, "memory"),
        asks=True,
        footer=15,
        target="app",
    ),
    Command(
        "sort_processes",
        ("s",),
        "sort",
        "Sort the processes by the next column that is shown.",
        group="Devices and memory",
        tabs=PROCESSES,
        now=lambda now: now.pane != PROCESS_MEMORY,
        footer=2,
    ),
    Command(
        "end_process",
        ("t",),
        "terminate",
        "Send SIGTERM to the process under the cursor, after asking.",
        group="Devices and memory",
        tabs=PROCESSES,
        asks=True,
        now=lambda now: now.on_process,
        footer=3,
    ),
)


SCREEN = (
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
        "go_back",
        ("escape",),
        "back",
        "Go back to the table or the list from what has its place, undo the zoom, drop the filter.",
        group="Screen",
        tabs=(*WORKBENCH, *PROCESSES, *WATCH, *RESULTS),
        now=lambda now: now.can_go_back,
        footer=0,
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
    Command(
        "next_pane", ("tab",), "next pane", "Go to the next pane.", group="Screen", tabs=EVERYWHERE
    ),
    Command(
        "previous_pane",
        ("shift+tab",),
        "pane before",
        "Go to the pane before.",
        group="Screen",
        tabs=EVERYWHERE,
    ),
    *(
        Command(
            f"tab_{tab.id}",
            (tab.key,),
            tab.title,
            tab.help,
            group="Screen",
            tabs=EVERYWHERE,
            target="app",
            opens=tab.id,
        )
        for tab in TABS
    ),
)
