"""Compute the position and height of the workbench's panes from the size of the screen. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tui.kit.frames import FRAME, FRAMED_CELLS, FRAMED_ROWS

PANES = ("devices", "memory", "workloads", "backend")
LOWER = ("detail", "log")
"""Panes of which one is shown at a time."""

Mode = Literal["columns", "grid", "stack", "fold"]
Place = Literal["natural", "open", "folded", "away"]

GRID_CELLS, GRID_ROWS = FRAMED_CELLS, FRAMED_ROWS
"""Least cells and rows for panes side by side, each in a frame."""
COLUMNS_CELLS, COLUMNS_ROWS = 170, 45
"""Least cells and rows for three columns: the machine, the workloads, and one in detail."""
STACK_ROWS = 22
"""Rows below which only one pane is open."""
TOP_ROWS = 10
"""Least rows of devices and memory side by side."""
BARS, MEMORY_ROWS, BACKEND_ROWS, TABLE_ROWS, LOWER_OPEN = 2, 5, 4, 6, 12
"""Rows of the other parts of a stack, with titles: header and footer, the panes, and the least of
the table."""
LISTED_ROWS = 2
"""Rows above its least that the table keeps beside a history on a low screen."""
TOP_SHARE = 2, 5
"""Share of the screen that devices and memory side by side can have: numerator, denominator."""
TALL_ROWS = 50
"""Rows of the screen from which each history of the devices pane has two rows."""
NOTICE_ROWS = 3
"""Rows that the reason why no GPU can be read may take from the table in a stack."""
BRIEF_ROWS = 4
"""Rows of the lower pane before the first run, when it describes the selected workload."""
RESULT_ROWS = 8
"""Least rows of the detail in a grid with folded backends, for a result without its studies."""
LOG_ROWS = 6
"""Least rows of the log in three columns."""
ROOMY = 30
"""Rows of the screen from which the table can give up some."""
LOWER_ROWS = 40
"""Rows of the screen from which a stack also shows the lower pane; on lower screens, it and the
backends pane fill the stack while they have the focus."""


class Arrangement(NamedTuple):
    """The layout mode, and the state of each pane."""

    mode: Mode
    places: dict[str, Place]


def pane_order(lower: str, *, columns: bool = False) -> tuple[str, ...]:
    """Return the panes in the order of the tab key.

    Args:
        lower: which of :data:`LOWER` has their place.
        columns: the screen shows both.
    """
    return (*PANES, *LOWER) if columns else (*PANES, lower)


def history_rows(rows: int) -> int:
    """Return the rows of each history of the devices pane, on a screen of this height."""
    return 2 if rows >= TALL_ROWS else 1


def detail_rows(rows: int, *, brief: bool) -> int:
    """Return the rows of the detail in a grid whose backends are folded, until it has the focus.

    The table changes little with the first run.

    Args:
        rows: height of the screen.
        brief: nothing has run yet.
    """
    return BRIEF_ROWS if brief else max(RESULT_ROWS, rows // 5)


def notice_rows(rows: int) -> int:
    """Return the rows for problems in the devices pane."""
    return NOTICE_ROWS if rows >= ROOMY else 1


def rows_for_devices(rows: int, *, memory: bool, lower: bool, backend: bool = True) -> int:
    """Return how many rows of a stack the devices pane can have.

    Args:
        rows: height of the screen.
        memory: the memory pane is open.
        lower: the lower pane is open.
        backend: the backends pane is open.
    """
    others = BARS + (MEMORY_ROWS if memory else 1) + (BACKEND_ROWS if backend else 1) + TABLE_ROWS
    return rows - others - (LOWER_OPEN if lower else 0)


def most_device_rows(mode: Mode, rows: int) -> int:
    """Return the most rows that the devices pane can have beside the other panes' least.

    The last row of a frame is not counted.

    Args:
        mode: the layout.
        rows: height of the screen.
    """
    if mode == "columns":
        return rows // 2 - FRAME
    if mode == "grid":
        return rows * TOP_SHARE[0] // TOP_SHARE[1] - FRAME
    if mode == "stack":
        return rows_for_devices(rows, memory=True, lower=rows >= LOWER_ROWS)
    return rows - BARS - len(PANES)


def devices_height(
    rows: int,
    bare: int,
    least: int,
    whole: int,
    *,
    memory: bool,
    lower: bool,
    spare: int = 0,
) -> int:
    """Return the rows of the devices pane in a stack: as many as it needs and are available.

    Args:
        rows: height of the screen.
        bare: rows that the devices take without their history.
        least: rows that the devices take with their lowest history.
        whole: rows that the devices take with their history.
        memory: the memory pane is open.
        lower: the lower pane is open.
        spare: rows that a folded backends pane leaves; 0 if it is open.
    """
    room = rows_for_devices(rows, memory=memory, lower=lower)
    if not lower and spare:
        # The history gets what the folded pane leaves, so that the table keeps its rows.
        most = rows_for_devices(rows, memory=memory, lower=lower, backend=False) - LISTED_ROWS
        most = most if rows >= ROOMY else min(most, bare + spare)
        return max(2, min(bare, room), _fit_history(most, bare, least, whole))
    # On a low screen the table needs the rows of a history.
    return max(2, _fit_history(room, bare, least, whole) if lower else min(bare, room))


def top_height(rows: int, bare: int, least: int, whole: int, *, reads: bool = False) -> int:
    """Return the rows of devices and memory in frames, side by side; see :func:`devices_height`.

    Args:
        rows: height of the screen.
        bare: rows that the devices take without their history.
        least: rows that the devices take with their lowest history.
        whole: rows that the devices take with their history.
        reads: the lower pane has the focus, and gets the rows of the history.
    """
    most = most_device_rows("grid", rows)
    fitted = min(bare, most) if reads else _fit_history(most, bare, least, whole)
    return max(TOP_ROWS, fitted + FRAME)


def _fit_history(most: int, bare: int, least: int, whole: int) -> int:
    """Return the rows of the devices, whose history shrinks to the rows that are left."""
    return min(whole if least <= most else bare, most)


def most_column_rows(rows: int) -> int:
    """Return the most rows, without the frame's last, of a low pane in three columns."""
    return (rows - BARS) // 3 - FRAME


def column_rows(rows: int, memory: int, backend: int) -> tuple[int, int, int]:
    """Return the rows of the memory, backends and log panes, in frames, in three columns.

    The devices, the workloads and the detail have the rest.

    Args:
        rows: height of the screen.
        memory: rows that the memory pane would fill, without the frame's last.
        backend: rows that the backends pane would fill, without the frame's last.
    """
    most = most_column_rows(rows)
    log = max(LOG_ROWS, (rows - BARS) // 6)
    return min(memory, most) + FRAME, min(backend, most) + FRAME, log


def choose_mode(cells: int, rows: int, focused: str | None, lower: str, *, zoomed: bool) -> Mode:
    """Return the layout; see :func:`arrange`."""
    if cells >= COLUMNS_CELLS and rows >= COLUMNS_ROWS and not zoomed:
        return "columns"
    focused = focused if focused in pane_order(lower) else "workloads"
    grid = cells >= GRID_CELLS and rows >= GRID_ROWS
    wide = focused in (lower, "backend") and not (grid or rows >= LOWER_ROWS)
    if zoomed or rows < STACK_ROWS or wide:
        return "fold"
    return "grid" if grid else "stack"


def list_room(cells: int, rows: int, focused: str | None, lower: str, zoomed: bool) -> int:
    """Return the rows that the list of devices can have, below its title and headings.

    The arguments are those of :func:`arrange`.
    """
    mode = choose_mode(cells, rows, focused, lower, zoomed=zoomed)
    return most_device_rows(mode, rows) - 2


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
        focused: id of the focused pane.
        lower: which of :data:`LOWER` has their place.
        zoomed: the focused pane fills the screen.
        devices: rows that the devices pane needs. If a stack has fewer, the memory pane is folded
        unless it has the focus, because busy GPUs matter more; so is the backends pane of a low
        screen, because the table needs its rows.
        compared: the backends pane has comparisons. Without one, or while the lower pane has the
        focus, a grid folds it unless it has the focus itself: its title shows the switches or the
        newest verdict, and the lower pane gets the whole width. So does a low stack without one,
        whose devices then have room for a history.
    """
    mode = choose_mode(cells, rows, focused, lower, zoomed=zoomed)
    if mode == "columns":
        return Arrangement(mode, dict.fromkeys((*PANES, *LOWER), "natural"))
    away: dict[str, Place] = {pane: "away" for pane in LOWER if pane != lower}
    focused = focused if focused in pane_order(lower) else "workloads"
    grid = mode == "grid"
    has_lower = grid or rows >= LOWER_ROWS
    if mode == "fold":
        folded: dict[str, Place] = {
            pane: "open" if pane == focused else "folded" for pane in pane_order(lower)
        }
        return Arrangement(mode, folded | away)
    natural: dict[str, Place] = dict.fromkeys(PANES, "natural")
    natural[lower] = "natural" if has_lower else "away"
    crowded = devices > rows_for_devices(rows, memory=True, lower=has_lower)
    if not grid and crowded and focused != "memory":
        natural["memory"] = "folded"
    if grid:
        folds = focused == lower or not compared
    else:
        folds = (crowded and rows < ROOMY) or not (has_lower or compared)
    if folds and focused != "backend":
        natural["backend"] = "folded"
    return Arrangement(mode, natural | away)
