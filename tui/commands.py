"""The one registry of commands: keys, footer, palette, help and the README's table come from here.

A command names the action, the app has the method.
"""

from __future__ import annotations

from tui.command import Command, Situation


def _can_run(now: Situation) -> bool:
    return now.runner_usable and now.has_workloads


def _has_snapshot(now: Situation) -> bool:
    return now.snapshot


_WORKBENCH = ("workbench",)
DEMO = ("demo",)
"""Commands of the demo alone may have keys that mean something else elsewhere."""
_RUNS = (*_WORKBENCH, *DEMO)
_SNAPSHOT = ("snapshot",)
_EVERYWHERE = ("workbench", "memory", "snapshot", "processes")
_MEMORY = ("workbench", "memory")
_PROCESSES = ("processes",)

COMMANDS: tuple[Command, ...] = (
    Command(
        "run_selected",
        ("r",),
        "run",
        "Run the selected workload on the CPU and the GPU of the table's column; on the heading of "
        "a group, all of the group; in the demo, the page's workload.",
        "Runs",
        _RUNS,
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
        _WORKBENCH,
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
        _WORKBENCH,
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
        _WORKBENCH,
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
        _WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=7,
    ),
    Command(
        "copy_result",
        ("y",),
        "copy",
        "Send the selected workload's figures as text to the terminal's clipboard (OSC 52).",
        "Runs",
        _WORKBENCH,
        now=lambda now: now.has_selection,
        footer=12,
    ),
    Command(
        "demo",
        ("D",),
        "demo",
        "Step through the selected workload's group, a page and a quick run for each.",
        "Demo",
        _WORKBENCH,
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
        footer=18,
    ),
    Command(
        "go_to_flags",
        ("b",),
        "flags",
        "Go to the switches of cuDNN and oneDNN.",
        "Backend",
        _WORKBENCH,
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
        _WORKBENCH,
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
        _WORKBENCH,
        asks=True,
        now=lambda now: now.has_switches and now.runner_usable,
        footer=5,
    ),
    Command(
        "next_device",
        ("d",),
        "device",
        "Select the next device: the memory pane and the table's GPU column show it.",
        "Devices and memory",
        footer=9,
    ),
    Command(
        "empty_cache",
        ("e",),
        "empty cache",
        "Return what the selected device's allocator holds but does not use.",
        "Devices and memory",
        _MEMORY,
        asks=True,
        now=lambda now: now.has_worker,
        footer=8,
    ),
    Command(
        "reset_peaks",
        ("p",),
        "reset peaks",
        "Start the selected device's peaks anew, torch's and the sampled ones.",
        "Devices and memory",
        _MEMORY,
        asks=True,
        footer=14,
    ),
    Command(
        "sort_processes",
        ("s",),
        "sort",
        "Sort the processes by the next column: memory, pid, user, age.",
        "Devices and memory",
        _PROCESSES,
        footer=2,
    ),
    Command(
        "end_process",
        ("t",),
        "terminate",
        "Send SIGTERM to the process under the cursor, after asking and if it is still the same.",
        "Devices and memory",
        _PROCESSES,
        asks=True,
        now=lambda now: now.on_process,
        footer=3,
    ),
    Command(
        "snapshot_open",
        ("o",),
        "open",
        "Choose a snapshot file and read it.",
        "Snapshot",
        _SNAPSHOT,
        footer=6,
    ),
    Command(
        "snapshot_cancel",
        ("x",),
        "cancel",
        "Stop reading a snapshot.",
        "Snapshot",
        _SNAPSHOT,
        now=lambda now: now.snapshot_loading,
        footer=1,
    ),
    Command(
        "snapshot_verdict",
        ("v",),
        "verdict",
        "Show why the snapshot's device ran out of memory, or a summary.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
    ),
    Command(
        "snapshot_timeline",
        ("t",),
        "timeline",
        "Show the snapshot's memory over its events.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
    ),
    Command(
        "snapshot_sites",
        ("s",),
        "sites",
        "Show who held the memory at the moment that is looked at.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
    ),
    Command(
        "snapshot_map",
        ("m",),
        "map",
        "Show where everything lay in its segments at that moment.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
    ),
    Command(
        "snapshot_difference",
        ("D",),
        "diff",
        "Show what changed from this snapshot to another.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
    ),
    Command(
        "snapshot_compare",
        ("c",),
        "compare",
        "Choose another snapshot file and compare this one with it.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=7,
    ),
    Command(
        "snapshot_peak",
        ("p",),
        "peak",
        "Look at the moment of the most live memory.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=2,
    ),
    Command(
        "snapshot_oom",
        ("n",),
        "next OOM",
        "Look at the next entry that ran out of memory.",
        "Snapshot",
        _SNAPSHOT,
        now=lambda now: now.snapshot and now.snapshot_ooms,
        footer=3,
    ),
    Command(
        "snapshot_end",
        ("e",),
        "end",
        "Look at the moment at which the snapshot was taken.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=4,
    ),
    Command(
        "snapshot_device",
        ("d",),
        "device",
        "Look at the snapshot's next device.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=9,
    ),
    Command(
        "snapshot_group",
        ("b",),
        "group by",
        "Group sites or changes by the next of site, function, file, annotation, size class, "
        "stream, pool and context.",
        "Snapshot",
        _SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("sites", "difference"),
        footer=5,
    ),
    Command(
        "snapshot_sort",
        ("S",),
        "sort",
        "Sort the sites by the next of bytes, count and name.",
        "Snapshot",
        _SNAPSHOT,
        now=lambda now: now.snapshot and now.pane == "sites",
        footer=10,
    ),
    Command(
        "snapshot_search",
        ("slash",),
        "search",
        "Search the sites for text, a /regular expression/ or an address.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=8,
    ),
    Command(
        "snapshot_zoom_in",
        ("plus",),
        "closer",
        "In the timeline and the map, look closer at what is under the cursor.",
        "Snapshot",
        _SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "map"),
        footer=11,
    ),
    Command(
        "snapshot_zoom_out",
        ("minus",),
        "wider",
        "In the timeline and the map, look from further away.",
        "Snapshot",
        _SNAPSHOT,
        now=lambda now: now.snapshot and now.pane in ("timeline", "map"),
        footer=12,
    ),
    Command(
        "snapshot_text",
        ("i",),
        "OOM text",
        "Paste the text of the exception, which tells what the snapshot lacks.",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=13,
    ),
    Command(
        "snapshot_copy",
        ("y",),
        "copy report",
        "Send a report on the device as Markdown to the terminal's clipboard (OSC 52).",
        "Snapshot",
        _SNAPSHOT,
        now=_has_snapshot,
        footer=14,
    ),
    Command(
        "show_detail",
        ("i",),
        "detail",
        "Go to the detail of the selected workload: its code, parameters and all figures.",
        "Screen",
        _WORKBENCH,
        footer=10,
    ),
    Command(
        "toggle_log",
        ("l",),
        "log",
        "Put the log where the detail is, or the detail where the log is.",
        "Screen",
        _WORKBENCH,
        footer=11,
    ),
    Command(
        "go_back",
        ("escape",),
        "back",
        "Go back to the table from a pane that has the screen, undo the zoom, drop the filter.",
        "Screen",
        _WORKBENCH,
        now=lambda now: now.can_go_back,
        footer=0,
    ),
    Command(
        "zoom",
        ("Z",),
        "zoom",
        "Give the focused pane the whole screen and fold the others, or undo it.",
        "Screen",
        _WORKBENCH,
        footer=15,
    ),
    Command("next_pane", ("tab",), "next pane", "Go to the next pane.", "Screen", _EVERYWHERE),
    Command(
        "previous_pane",
        ("shift+tab",),
        "pane before",
        "Go to the pane before.",
        "Screen",
        _EVERYWHERE,
    ),
    Command("tab_workbench", ("1",), "Workbench", "Show the workbench.", "Screen", _EVERYWHERE),
    Command(
        "tab_memory", ("2",), "Memory", "Show the memory of the devices.", "Screen", _EVERYWHERE
    ),
    Command(
        "tab_snapshot",
        ("3",),
        "Snapshot",
        "Show the allocator snapshot that is read, or open one.",
        "Screen",
        _EVERYWHERE,
    ),
    Command(
        "tab_processes",
        ("4",),
        "Processes",
        "Show who holds the memory of the selected device.",
        "Screen",
    ),
    Command(
        "restart_runner",
        ("N",),
        "new runner",
        "End the runner, whatever it does, and start a new one, which reads --workloads anew.",
        "Program",
        _EVERYWHERE,
        asks=True,
    ),
    Command(
        "show_help",
        ("question_mark", "f1"),
        "help",
        "Explain the focused pane and list all keys.",
        "Program",
        (*_EVERYWHERE, *DEMO),
        footer=17,
    ),
    Command(
        "command_palette",
        ("colon",),
        "palette",
        "Find a command by name.",
        "Program",
        _EVERYWHERE,
    ),
    Command(
        "quit",
        ("q", "ctrl+q"),
        "quit",
        "End the workbench and its runner.",
        "Program",
        _EVERYWHERE,
        footer=18,
    ),
)

BY_ACTION = {command.action: command for command in COMMANDS}

KEY_WORDS = {
    "equals_sign": "=",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "f1": "F1",
    "plus": "+",
    "minus": "-",
}


def key_text(key: str) -> str:
    """How a key is written for people."""
    return KEY_WORDS.get(key, key)


def keys_text(command: Command) -> str:
    """All keys of a command."""
    return ", ".join(key_text(key) for key in command.keys)


def in_footer(now: Situation) -> list[Command]:
    """The commands that the footer shows, in its order."""
    shown = [item for item in COMMANDS if item.footer is not None and item.valid(now)]
    return sorted(shown, key=lambda item: item.footer or 0)


def key_table_markdown() -> str:
    """The README's table of keys."""
    rows = ["| Key | What it does |", "| --- | --- |"]
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows.append(f"| **{group}** | |")
        for command in COMMANDS:
            if command.group == group:
                keys = ", ".join(f"`{key_text(key)}`" for key in command.keys) or "palette"
                rows.append(f"| {keys} | {command.help} |")
    return "\n".join(rows) + "\n"
