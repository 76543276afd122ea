"""Where commands are offered: the ids of the tabs."""

from __future__ import annotations

WORKBENCH = ("workbench",)
SNAPSHOT = ("snapshot",)
PROCESSES = ("processes",)
DEMO = ("demo",)
"""Commands of the demo alone may have keys that mean something else elsewhere."""
EVERYWHERE = (*WORKBENCH, "memory", *SNAPSHOT, *PROCESSES)
NAMES = {
    "workbench": "Workbench",
    "memory": "Memory",
    "snapshot": "Snapshot",
    "processes": "Processes",
    "demo": "Demo",
}
"""What each is called on the screen."""
