"""Place and height of the workbench's panes by the size of the screen. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PANES = ("devices", "memory", "workloads", "backend")
LOWER = ("detail", "log")
"""Panes that share one place: only one of them is shown."""

Mode = Literal["columns", "grid", "stack", "fold"]
Place = Literal["natural", "open", "folded", "away"]

GRID_CELLS, GRID_ROWS = 110, 30
"""Least cells and rows for panes side by side."""
COLUMNS_CELLS, COLUMNS_ROWS = 170, 45
"""Least cells and rows for three columns: the machine, the workloads, and one in detail."""
STACK_ROWS = 22
"""Rows below which only one pane is open."""
TOP_ROWS = 10
"""Least rows of devices and memory side by side."""
BARS, MEMORY_ROWS, BACKEND_ROWS, TABLE_ROWS, LOWER_OPEN = 2, 5, 4, 6, 12
"""Rows of the other parts of a stack: header and footer, and each pane with its title; of the table
the least."""
TALL_ROWS = 50
"""Rows of the screen from which each history of the devices pane has two rows."""
NOTICE_ROWS = 3
"""Rows of the table, in a stack, that the reason why no GPU can be read may use."""
BRIEF_ROWS = 5
"""Of the lower pane while no workload has run: it says what the selected one does."""
LOG_ROWS = 6
"""Of the log in three columns, at least."""
ROOMY = 30
"""From here on the table can spare some."""
LOWER_ROWS = 40
"""From here on the lower pane has its place in a stack too; below, it and the backend's take all
of it while keys go to them."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The mode, and the place of each pane."""

    mode: Mode
    places: dict[str, Place]


def pane_order(lower: str, *, columns: bool = False) -> tuple[str, ...]:
    """Return the panes in the order in which tab goes through them.

    Args:
        lower: which of :data:`LOWER` has their place.
        columns: both have a place.
    """
    return (*PANES, *LOWER) if columns else (*PANES, lower)


def history_rows(rows: int) -> int:
    """Return the rows of each history of the devices pane, on a screen of this height."""
    return 2 if rows >= TALL_ROWS else 1


def notice_rows(rows: int, devices: int) -> int:
    """Return the rows that the devices pane has for problems, beside this many devices."""
    return NOTICE_ROWS if rows >= ROOMY or (devices <= 1 and rows >= STACK_ROWS) else 1


def rows_for_devices(rows: int, *, memory: bool, lower: bool) -> int:
    """Return how many rows of a stack the devices pane can have.

    Args:
        rows: height of the screen.
        memory: the memory pane is open.
        lower: the lower pane is open.
    """
    others = BARS + (MEMORY_ROWS if memory else 1) + BACKEND_ROWS + TABLE_ROWS
    return rows - others - (LOWER_OPEN if lower else 0)


def devices_height(rows: int, bare: int, whole: int, *, memory: bool, lower: bool) -> int:
    """Return the rows of the devices pane in a stack: as many as it needs and are available.

    Args:
        rows: height of the screen.
        bare: rows that the devices take without their history.
        whole: rows that they take with it.
        memory: the memory pane is open.
        lower: the lower pane is open.
    """
    room = rows_for_devices(rows, memory=memory, lower=lower)
    # On a low screen the table needs the rows that a history would take.
    wanted = whole if lower and whole <= room else bare
    return max(2, min(wanted, room))


def top_height(rows: int, bare: int, whole: int) -> int:
    """Return the rows of devices and memory side by side; see :func:`devices_height`."""
    most = rows * 2 // 5
    return max(TOP_ROWS, whole if whole <= most else min(bare, most))


def column_rows(rows: int, memory: int, backend: int) -> tuple[int, int, int]:
    """Return the rows of the memory, backends and log panes in three columns.

    The devices, the workloads and the detail have the rest.

    Args:
        rows: height of the screen.
        memory: rows that the memory pane would fill.
        backend: rows that the backends pane would fill.
    """
    room = rows - BARS
    return min(memory, room // 3), min(backend, room // 3), max(LOG_ROWS, room // 6)


def arrange(
    cells: int,
    rows: int,
    focused: str | None,
    lower: str,
    *,
    zoomed: bool,
    devices: int = 0,
    compared: bool = True,
) -> Arrangement:
    """Place the panes.

    Args:
        cells: width of the screen.
        rows: height of the screen, with header and footer.
        focused: the pane that keys go to.
        lower: which of :data:`LOWER` has their place.
        zoomed: the focused pane was asked to take all.
        devices: rows that the devices pane needs. Where a stack has not so many, the memory pane
            is folded while keys do not go to it: which GPU is busy comes first.
        compared: the backends pane has comparisons. In a grid it is folded without one while keys
            do not go to it: its title shows the switches, and the lower pane has the whole width.
    """
    if cells >= COLUMNS_CELLS and rows >= COLUMNS_ROWS and not zoomed:
        return Arrangement("columns", dict.fromkeys((*PANES, *LOWER), "natural"))
    away: dict[str, Place] = {pane: "away" for pane in LOWER if pane != lower}
    focused = focused if focused in pane_order(lower) else "workloads"
    grid = cells >= GRID_CELLS and rows >= GRID_ROWS
    has_lower = grid or rows >= LOWER_ROWS
    wide = focused in (lower, "backend") and not has_lower
    if zoomed or rows < STACK_ROWS or wide:
        folded: dict[str, Place] = {
            pane: "open" if pane == focused else "folded" for pane in pane_order(lower)
        }
        return Arrangement("fold", folded | away)
    natural: dict[str, Place] = dict.fromkeys(PANES, "natural")
    natural[lower] = "natural" if has_lower else "away"
    crowded = devices > rows_for_devices(rows, memory=True, lower=has_lower)
    if not grid and crowded and focused != "memory":
        natural["memory"] = "folded"
    if grid and not compared and focused != "backend":
        natural["backend"] = "folded"
    return Arrangement("grid" if grid else "stack", natural | away)
