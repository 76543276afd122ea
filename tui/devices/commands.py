"""The commands of devices, their memory, and processes."""

from __future__ import annotations

from tui.kit.commands.command import PROCESS_MEMORY, PROCESSES, WORKBENCH, Command

DEVICES = (
    Command(
        "next_device",
        ("d",),
        "device",
        "Select the next device for the memory pane and the table's GPU column.",
        "Devices and memory",
        now=lambda now: now.pane != PROCESS_MEMORY,
        footer=10,
        target="app",
    ),
    Command(
        "empty_cache",
        ("e",),
        "empty cache",
        "Empty the allocator's cache on the selected device (torch.cuda.empty_cache).",
        group="Devices and memory",
        tabs=(*WORKBENCH, "memory"),
        asks=True,
        now=lambda now: now.has_worker,
        target="app",
    ),
    Command(
        "reset_peaks",
        ("0",),
        "reset peaks",
        "Reset the peaks of the selected device, both torch's and the sampled ones.",
        group="Devices and memory",
        tabs=(*WORKBENCH, "memory"),
        asks=True,
        target="app",
    ),
    Command(
        "sort_processes",
        ("s",),
        "sort",
        "Sort the processes by the next visible column.",
        group="Devices and memory",
        tabs=PROCESSES,
        now=lambda now: now.pane != PROCESS_MEMORY,
        footer=2,
    ),
    Command(
        "toggle_tree",
        ("t",),
        "tree",
        "Show the processes as a tree, each below the one that started it, or flat.",
        group="Devices and memory",
        tabs=PROCESSES,
        now=lambda now: now.pane != PROCESS_MEMORY,
        footer=4,
    ),
    Command(
        "end_process",
        ("x",),
        "end",
        "End the process under the cursor with SIGINT, SIGTERM or SIGKILL, after confirmation.",
        group="Devices and memory",
        tabs=PROCESSES,
        asks=True,
        now=lambda now: now.on_process,
        footer=3,
    ),
)
