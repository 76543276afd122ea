"""The header of the screens: the machine, the runner's state, and the tabs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.events import RunnerStatus
from tui.core.text import numbers as text
from tui.devices.state.machine import SIMULATED, SIMULATED_SHORT, MachineState
from tui.devices.views.host_rows import format_host_count
from tui.kit.commands.command import TABS, Tab
from tui.kit.lines import Line, Span, TextStyle, fit_line, line, width
from tui.monitor.messages import Driver
from tui.runs.state.state import RunsState
from tui.runs.views.queue import format_current_run

LONG_FROM, SHORT_FROM, KEYS_BELOW, CLOSE_BELOW = 140, 80, 54, 40
"""Widths of the header in cells. From the first on all tabs have titles, from the second on short
titles. Below the second only the open tab has a short title; below the third it has only its key
too; below the fourth the keys stand close together. The text beside them changes, and the tabs
keep their place."""
APART_FROM = 110
"""Least width in cells at which a blank separates the open tab's mark from its neighbors."""
NAMED_FROM, NAMED_BUSY_FROM = 100, APART_FROM
"""Least widths in cells at which the program's name is shown beside other remarks, and beside the
words about current work, for which the driver and torch make room."""
GOING_ON, GOING_ON_BESIDE_NAME = 44, 22
"""Cells reserved for the words about current work before the facts, and before the machine's name,
which tells one terminal from another."""
ESSENTIAL = 3
"""Number of the first facts that the program's name must leave room for: machine, driver, torch."""
PROGRAM = "gpu-workbench"


def describe_runner(runs: RunsState, cells: int = 10_000) -> Span:
    """Return the runner's state in a few words; the workloads pane shows its problems.

    Args:
        runs: the runner and its runs.
        cells: available width; pending work is dropped first, then the workload's device.
    """
    if runs.machine.hosts and not runs.machine.hosts.here:
        return Span("")  # --no-here: the user wants no runner
    runner: RunnerStatus = runs.runner
    if runner.status == "ready":
        current = format_current_run(runs)
        if current:
            return Span(
                next((words for words in current if len(words) <= cells), current[-1]),
                TextStyle.KEY,
            )
        waiting = len(runs.pending())
        return Span(f"{waiting} queued" if waiting else "ready", TextStyle.GOOD)
    if runner.status == "not started":
        return Span("")  # the workloads pane explains how to start it
    styles = {"unusable": TextStyle.BAD, "ended": TextStyle.BAD, "restarting": TextStyle.NOTE}
    reason = f": {runner.reason}" if runner.reason and runner.status == "restarting" else ""
    words = "nothing can be run" if runner.status == "unusable" else runner.status
    return Span(f"{words}{reason}", styles.get(runner.status, TextStyle.QUIET))


def facts(machine: MachineState, *, brief: bool = False) -> list[Line]:
    """Return the facts that figures depend on, the most important first.

    Args:
        machine: the machine, or the hosts.
        brief: leave the build out of torch's version, such as ``+cu130``.
    """
    lines: list[Line] = []
    if machine.hosts:
        lines.append(line(format_host_count(machine)))
    elif machine.sample:
        lines.append(line(machine.sample.host.name))
        driver = machine.sample.driver
        lines.append(line(_driver(driver)))
    environment = machine.shown.environment
    if environment:
        torch = environment.torch
        if brief and torch is not None:
            torch = torch.partition("+")[0]
        for name, version in (
            ("torch", torch),
            ("CUDA", environment.cuda),
            ("cuDNN", environment.cudnn),
        ):
            lines.append(line(f"{name} {version or text.NA}"))
    return lines


def _driver(driver: Driver) -> str:
    if driver.version:
        return f"driver {driver.version}"
    if driver.missing:
        return "no driver"
    return "no NVML" if driver.error else f"driver {text.NA}"


def tabs_line(tab: str, cells: int) -> Line:
    """Return the tabs with the keys that open them; the open one is marked.

    Args:
        tab: the open tab.
        cells: width of the whole header; where it is narrow, titles are short or only keys remain.
    """
    names = [_name(entry, cells, opened=entry.id == tab) for entry in TABS]
    if cells >= APART_FROM or CLOSE_BELOW <= cells < SHORT_FROM:
        texts = [f" {name} " for name in names]
    else:
        # One blank between two tabs, for want of room; the open one's mark covers those beside it.
        place = next(index for index, entry in enumerate(TABS) if entry.id == tab)
        texts = [
            f"{'' if 0 < index != place else ' '}{name}{'' if index + 1 == place else ' '}"
            for index, name in enumerate(names)
        ]
        if cells < NAMED_FROM:
            texts[-1] = texts[-1].rstrip()
    return tuple(
        Span(text, TextStyle.CURSOR if entry.id == tab else TextStyle.QUIET)
        for entry, text in zip(TABS, texts, strict=True)
    )


def _name(tab: Tab, cells: int, *, opened: bool) -> str:
    """Return the key of a tab, with as much of its title as a header of this width shows."""
    if cells >= LONG_FROM:
        return f"{tab.key} {tab.title}"
    if cells >= SHORT_FROM or (opened and cells >= KEYS_BELOW):
        return f"{tab.key} {tab.short}"
    return tab.key


def _remark(machine: MachineState, cells: int) -> str:
    """Return the words about simulated GPUs in a header of this width; empty for real ones."""
    if not machine.simulated:
        return ""
    return SIMULATED if cells >= LONG_FROM else SIMULATED_SHORT


def tabs_shown(machine: MachineState, tab: str, cells: int, note: str = "") -> Line:
    """Return the tabs, in the room beside the words that are always shown.

    The arguments are those of :func:`header_line`.
    """
    # In a narrow header the keys stand closer, so that the words about current work have room. In a
    # recording the names of the tabs matter more.
    reserved = len(SIMULATED) if cells < SHORT_FROM else 0 if note else len(SIMULATED_SHORT)
    return tabs_line(tab, cells - (reserved if machine.simulated else 0))


def tab_at(machine: MachineState, x: int, cells: int, tab: str, note: str = "") -> str | None:
    """Return the tab under a column of a header ``cells`` wide in which ``tab`` is open."""
    spans = tabs_shown(machine, tab, cells, note)
    start = cells - width(spans)
    if x < start:
        return None
    following = [*(span.text for span in spans[1:]), " "]
    for entry, span, after in zip(TABS, spans, following, strict=True):
        end = start + span.width
        # A single blank between two tabs belongs to the right one, whichever is open.
        shared = span.text.endswith(" ") and not after.startswith(" ")
        if x < (end - 1 if shared else end):
            return entry.id
        start = end
    return None


def _fit_facts(
    remarks: Sequence[Span], known: Sequence[Line], room: int, least: int
) -> tuple[Line, int]:
    """Return the remarks and as many facts as fit, and the number of facts.

    Args:
        remarks: what is always shown.
        known: the facts, the most important first.
        room: cells for all.
        least: cells of the words about current work. The first fact, the machine's name, only
            leaves them :data:`GOING_ON_BESIDE_NAME`.
    """
    shown: Line = ()
    for remark in remarks:
        shown = (*shown, Span("  " if shown else " "), remark)
    count = 0
    for fact in known:
        more = (Span("  " if shown else " "), *fact)
        words = min(least, GOING_ON_BESIDE_NAME) if not count else least
        if width(shown) + width(more) + (words + 2 if words else 0) + 1 > room:
            break
        shown, count = (*shown, *more), count + 1
    return shown, count


def header_line(
    runs: RunsState,
    tab: str,
    cells: int,
    *,
    readonly: bool = False,
    note: str = "",
    ended: bool = False,
) -> Line:
    """Return the runner's state, the tabs, and as many facts as there is room for.

    A narrow header shows what runs, or the number of hosts, instead of the program's name. A note
    that the GPUs are simulated comes first.

    Args:
        runs: the runs on this machine; the header shows those on the machine of the selected row.
        tab: the open tab.
        cells: width of the header.
        readonly: nothing can be run.
        note: position in the recording.
        ended: the recording has ended; the runs of its last moment do not continue.
    """
    machine = runs.machine
    runs = runs.shown
    tabs = tabs_shown(machine, tab, cells, note)
    room = max(0, cells - width(tabs))
    busy = bool(format_current_run(runs)) and not ended
    both = bool(machine.hosts) and machine.hosts.here
    remarked = ended or machine.simulated or both
    least_named = NAMED_BUSY_FROM if busy else NAMED_FROM if remarked else 0
    remarks = [Span(_remark(machine, cells), TextStyle.NOTE)] if machine.simulated else []
    if note or readonly:
        remarks.append(Span(note or "read only", TextStyle.NOTE))
    # The words change several times a second: the facts must not come and go with them.
    least = 0 if ended else GOING_ON if busy else describe_runner(runs).width
    # Invented facts would only take the room of the words about current work.
    known = [] if note and machine.simulated else facts(machine)
    bare, shown = _fit_facts(remarks, known, room, least)
    left = bare
    if cells >= least_named:
        program = (Span(PROGRAM, TextStyle.STRONG), *remarks)
        # The facts that figures depend on are worth more than the program's name.
        for listed in (known, known and facts(machine, brief=True)):
            named, beside = _fit_facts(program, listed, room, least)
            if shown < ESSENTIAL or beside >= ESSENTIAL:
                left = named
                break
    free = room - width(left) - (2 if left else 1) - 1
    words = Span("") if ended else describe_runner(runs, free)
    if note and words.width > free:
        words = Span("")
    runner: Line = (Span("  " if left else " "), words) if words.text else ()
    runner = fit_line(runner, max(0, room - width(left) - 1))
    left = fit_line((*left, *runner), room)
    return (*left, Span(" " * (room - width(left))), *tabs)
