"""The runs that wait: how far they are in one line, and what is asked before many or none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.state.pairing import CPU
from tui.state.queue import Expected, Queue, expected
from tui.state.store import Store
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit, width
from tui.ui.views.screen_frame import going_on
from tui.ui.views.workload_table import devices
from workloads.protocol.messages import Run

LEAST_BAR, MOST_BAR = 8, 60
"""Cells of the bar; where there is no room for the least, there is none."""


def queue_line(found: Queue, cells: int, now: str = "") -> Line:
    """How far the runs are: ``3 of 52 runs ███····· about 4 min left``.

    Args:
        found: of the store.
        cells: that there are.
        now: what goes on, said at the end where there is room.
    """
    head = f" {found.done} of {text.count(found.wanted, 'run')}"
    failed = Span(f", {found.failed} failed", TextStyle.BAD) if found.failed else Span("")
    tail = f" {text.about(found.left_s)} left"
    room = cells - len(head) - failed.width - len(tail) - 2
    more = Span(fit(f"  {now}", max(0, room - LEAST_BAR)) if now else "", TextStyle.QUIET)
    bar = min(MOST_BAR, room - more.width)
    drawn: Line = ()
    if bar >= LEAST_BAR:
        full = bar * found.done // found.wanted
        filled, rest = glyphs.GLYPHS.slices["allocated"], glyphs.GLYPHS.slices["free"]
        drawn = (
            Span(" "),
            Span(filled * full, TextStyle.ALLOCATED),
            Span(rest * (bar - full), TextStyle.REST),
        )
    spans: Line = (Span(head, TextStyle.STRONG), failed, *drawn, Span(tail), more)
    return spans if width(spans) <= cells else (Span(head + tail, TextStyle.STRONG),)


def runs_of(store: Store, names: Sequence[str]) -> list[Run]:
    """What a run of some workloads comes to: each setting of each on each device of the table."""
    return [
        Run(id="", workload=name, device=device, parameters=dict(point), flags={})
        for name in names
        for point in store.points(name)
        for device in devices(store)
    ]


def run_all_words(store: Store, names: Sequence[str]) -> tuple[str, list[str]]:
    """The question before everything that the table lists is run, and what is to be known.

    Args:
        store: what is known.
        names: of the workloads.
    """
    runs = runs_of(store, names)
    found = expected(store, runs)
    where = " and ".join(devices(store))
    if store.environment is None:
        where = f"{CPU}, and on the GPU once torch has found one"
    words = [f"{text.count(found.runs, 'run')} on {where}, {text.about(found.seconds)}."]
    words.append(_basis(found))
    waiting = len(store.pending())
    if waiting:
        wait = "waits" if waiting == 1 else "wait"
        words.append(f"They come after the {text.count(waiting, 'run')} that {wait}.")
    words.append("x cancels a workload's runs and X all of them; what was measured is kept.")
    return f"Run {text.count(len(names), 'workload')}?", words


def _basis(found: Expected) -> str:
    """What the estimate goes by."""
    if found.each_s is None:
        return "The estimate is how long the same runs took before."
    each = f"{text.duration(max(1.0, round(found.each_s)))} a run"
    usual = "the mean of the runs so far" if found.measured else "the usual for a whole catalogue"
    if not found.known:
        return f"The estimate is {each}: {usual}."
    return (
        f"The estimate: {found.known} of them as long as they took before, the others {each}, "
        f"{usual}."
    )


def quit_words(store: Store) -> list[str]:
    """What is lost by an end while something runs.

    Args:
        store: what is known.
    """
    waiting = len(store.pending())
    doing = going_on(store)
    words = [f"{doing[0][0].upper()}{doing[0][1:]}." if doing else f"{waiting} queued."]
    words.append(f"{'It is' if waiting == 1 else f'All {waiting} are'} cancelled.")
    results = sum(run.result is not None and not run.cancelled for run in store.runs.values())
    results += sum(item.done for item in store.comparisons.values())
    if results:
        words.append(
            f"{text.count(results, 'result')} of this session {'is' if results == 1 else 'are'} "
            "lost, unless it was started with --record. y in the table copies one into a file."
        )
    return words
