"""Devices, their memory and who holds it."""

from __future__ import annotations

from tui.ui.commands.command import PROCESSES, WORKBENCH, Command

COMMANDS = (
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
        (*WORKBENCH, "memory"),
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
        (*WORKBENCH, "memory"),
        asks=True,
        footer=14,
    ),
    Command(
        "sort_processes",
        ("s",),
        "sort",
        "Sort the processes by the next column: memory, pid, user, age.",
        "Devices and memory",
        PROCESSES,
        footer=2,
    ),
    Command(
        "end_process",
        ("t",),
        "terminate",
        "Send SIGTERM to the process under the cursor, after asking and if it is still the same.",
        "Devices and memory",
        PROCESSES,
        asks=True,
        now=lambda now: now.on_process,
        footer=3,
    ),
)
