"""Which panes are open, folded to their title, or away, at a given size. Pure."""

from __future__ import annotations

from typing import Literal

from workloads.protocol.frozen import frozen

PANES = ("devices", "memory", "workloads", "backend")
LOWER = ("detail", "log")
"""Share one place; one of them is away."""

Mode = Literal["grid", "stack", "fold"]
Place = Literal["natural", "open", "folded", "away"]

GRID_CELLS, GRID_ROWS = 110, 30
"""From here on panes stand side by side."""
STACK_ROWS = 22
"""Below this only one pane is open."""
TOP_ROWS = 10
"""Of devices and memory side by side, at least."""
BARS, MEMORY_ROWS, BACKEND_ROWS, TABLE_ROWS, LOWER_OPEN = 2, 5, 4, 6, 12
"""What the others take of a stack: header and footer, and each pane with its title, the table at
least."""
LOWER_ROWS = 40
"""From here on the lower pane has its place in a stack too; below, it and the backend's take all
of it while keys go to them."""


@frozen
class Arrangement:
    """The mode, and the place of each pane."""

    mode: Mode
    places: dict[str, Place]


def order(lower: str) -> tuple[str, ...]:
    """The panes in the order in which tab goes through them."""
    return (*PANES, lower)


def rows_for_devices(rows: int, *, memory: bool, lower: bool) -> int:
    """How many rows of a stack the devices pane can have.

    Args:
        rows: height of the screen.
        memory: the memory pane is open.
        lower: the lower pane is open.
    """
    others = BARS + (MEMORY_ROWS if memory else 1) + BACKEND_ROWS + TABLE_ROWS
    return rows - others - (LOWER_OPEN if lower else 0)


def arrange(
    cells: int, rows: int, focused: str | None, lower: str, *, zoomed: bool, devices: int = 0
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
    """
    away: dict[str, Place] = {pane: "away" for pane in LOWER if pane != lower}
    focused = focused if focused in order(lower) else "workloads"
    grid = cells >= GRID_CELLS and rows >= GRID_ROWS
    has_lower = grid or rows >= LOWER_ROWS
    wide = focused in (lower, "backend") and not has_lower
    if zoomed or rows < STACK_ROWS or wide:
        folded: dict[str, Place] = {
            pane: "open" if pane == focused else "folded" for pane in order(lower)
        }
        return Arrangement("fold", folded | away)
    natural: dict[str, Place] = dict.fromkeys(PANES, "natural")
    natural[lower] = "natural" if has_lower else "away"
    crowded = devices > rows_for_devices(rows, memory=True, lower=has_lower)
    if not grid and crowded and focused != "memory":
        natural["memory"] = "folded"
    return Arrangement("grid" if grid else "stack", natural | away)
