"""The header line: host, versions, what the runner is doing, the tabs. Pure."""

from __future__ import annotations

from tui import format as text
from tui.store.events import RunnerStatus
from tui.store.store import Store
from tui.views.lines import Line, Span, Tone, fit_line, line, width

TABS = (
    ("workbench", "1", "Workbench"),
    ("memory", "2", "Memory"),
    ("snapshot", "3", "Snapshot"),
    ("processes", "4", "Processes"),
)
"""Name, key and title of each tab."""
LONG_FROM, SHORT_FROM, KEYS_BELOW = 100, 72, 40
"""Cells of the header from which all tabs have their titles in full, long ones in short; below
that the open one has its title, and below the last it too has only its key."""
SHORT_TITLE, SHORT = 8, 4
"""Letters of a title that is short enough, and of one that was shortened."""
TITLE = "gpu-workbench"


def runner_words(store: Store) -> Span:
    """What the runner is doing, in a few words; the workloads pane has more of what is wrong."""
    runner: RunnerStatus = store.runner
    if runner.status == "ready":
        what = going_on(store)
        waiting = len(store.pending()) - (what is not None)
        if what:
            return Span(f"running {what}" + (f", {waiting} to do" if waiting else ""), Tone.KEY)
        return Span(f"{waiting} queued" if waiting else "ready", Tone.GOOD)
    tones = {"unusable": Tone.BAD, "ended": Tone.BAD, "restarting": Tone.NOTE}
    reason = f": {runner.reason}" if runner.reason and runner.status == "restarting" else ""
    return Span(f"{runner.status}{reason}", tones.get(runner.status, Tone.QUIET))


def going_on(store: Store) -> str | None:
    """What is being measured."""
    for run in store.runs.values():
        if run.progress and not run.ended:
            return f"{run.request.workload} on {run.request.device}"
    for state in store.comparisons.values():
        if state.progress and not state.done:
            return f"{state.request.workload} with {state.request.flag}"
    return None


def facts(store: Store) -> list[Line]:
    """What figures depend on, the most telling first."""
    found: list[Line] = []
    if store.sample:
        found.append(line(store.sample.host.name))
        driver = store.sample.driver
        found.append(line(f"driver {driver.version}" if driver.version else "no driver"))
    environment = store.environment
    if environment:
        for name, version in (
            ("torch", environment.torch),
            ("CUDA", environment.cuda),
            ("cuDNN", environment.cudnn),
        ):
            found.append(line(f"{name} {version or text.NA}"))
    return found


def tabs_line(tab: str, cells: int) -> Line:
    """The tabs with the keys that open them; the open one is marked.

    Args:
        tab: the open one.
        cells: of the whole header: where it is narrow, titles are short, or only their keys left.
    """
    return tuple(
        Span(_tab(key, title, cells, chosen=name == tab), _tone(name == tab))
        for name, key, title in TABS
    )


def _tab(key: str, title: str, cells: int, *, chosen: bool) -> str:
    if cells < SHORT_FROM and not (chosen and cells >= KEYS_BELOW):
        return f" {key} "
    if cells >= LONG_FROM or chosen or len(title) <= SHORT_TITLE:
        return f" {key} {title} "
    return f" {key} {title[:SHORT]} "


def _tone(chosen: bool) -> Tone:
    return Tone.CURSOR if chosen else Tone.QUIET


def tab_at(x: int, cells: int, tab: str) -> str | None:
    """The tab under a column of a header ``cells`` wide, on which ``tab`` is open."""
    spans = tabs_line(tab, cells)
    start = cells - width(spans)
    for (name, _, _), span in zip(TABS, spans, strict=True):
        end = start + span.width
        if start <= x < end:
            return name
        start = end
    return None


def header_line(
    store: Store, tab: str, cells: int, *, readonly: bool = False, note: str = ""
) -> Line:
    """As many facts as there is room for, the runner's state and the tabs always."""
    tabs = tabs_line(tab, cells)
    room = max(0, cells - width(tabs))
    left: Line = (Span(f" {TITLE}", Tone.STRONG),)
    if note:
        left = (*left, Span(f"  {note}", Tone.NOTE))
    elif readonly:
        left = (*left, Span("  read only", Tone.NOTE))
    runner: Line = (Span("  "), runner_words(store))
    runner = fit_line(runner, max(0, room - width(left) - 1))
    for fact in facts(store):
        more = (Span("  "), *fact)
        if width(left) + width(more) + width(runner) + 1 <= room:
            left += more
    left = fit_line((*left, *runner), room)
    return (*left, Span(" " * (room - width(left))), *tabs)
