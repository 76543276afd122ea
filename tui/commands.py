"""The one registry of commands: keys, footer, palette, help and the README's table come from here.

A command names the action, the app has the method.
"""

from __future__ import annotations

from tui.command import Command, Situation


def _can_run(now: Situation) -> bool:
    return now.runner_usable and now.has_workloads


_WORKBENCH = ("workbench",)

COMMANDS: tuple[Command, ...] = (
    Command(
        "run_selected",
        ("r",),
        "run",
        "Run the selected workload on the CPU and the GPU of the table's column; on the heading of "
        "a group, all of the group.",
        "Runs",
        _WORKBENCH,
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
        "Edit the parameters of the selected workload; enter does it in the table.",
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
        asks=True,
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
        "zoom",
        ("Z",),
        "zoom",
        "Give the focused pane the whole screen and fold the others, or undo it.",
        "Screen",
        _WORKBENCH,
        footer=15,
    ),
    Command("next_pane", ("tab",), "next pane", "Go to the next pane.", "Screen"),
    Command("previous_pane", ("shift+tab",), "pane before", "Go to the pane before.", "Screen"),
    Command("tab_workbench", ("1",), "Workbench", "Show the workbench.", "Screen"),
    Command("tab_memory", ("2",), "Memory", "Show the memory of the devices.", "Screen"),
    Command(
        "restart_runner",
        (),
        "restart runner",
        "End the runner, whatever it does, and start a new one.",
        "Program",
        asks=True,
    ),
    Command(
        "show_help",
        ("question_mark", "f1"),
        "help",
        "Explain the focused pane and list all keys.",
        "Program",
        footer=16,
    ),
    Command("command_palette", ("colon",), "palette", "Find a command by name.", "Program"),
    Command(
        "quit", ("q", "ctrl+q"), "quit", "End the workbench and its runner.", "Program", footer=17
    ),
)

BY_ACTION = {command.action: command for command in COMMANDS}

KEY_WORDS = {
    "equals_sign": "=",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "f1": "F1",
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
