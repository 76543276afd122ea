"""A page of the demo: what a workload shows, its code, how its run goes, what came out. Pure."""

from __future__ import annotations

from tui.state import parameters
from tui.state.runs import RunState
from tui.state.store import SIMULATED, Store
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.detail import code_lines, present_settings
from tui.ui.views.findings import finding_lines
from tui.ui.views.lines import Line, Span, TextStyle, flow, left, line, paragraph
from tui.ui.views.workload_state import (
    flags_that_act,
    half_width,
    median,
    progress_words,
    warnings_of,
)
from tui.ui.views.workload_table import devices, not_run, of_limit, rate
from workloads.protocol.inventory import Setting, WorkloadInfo
from workloads.protocol.results import RunResult

DEVICE_CELLS = 8


def pages(store: Store, group: str) -> list[WorkloadInfo]:
    """The workloads of a group, a page each."""
    return [info for info in store.catalogue if info.group == group]


def title_line(store: Store, group: str, number: int, cells: int) -> Line:
    """Group, page and the workload's title."""
    found = pages(store, group)
    if not found:
        return line(Span(left(f" {group}", cells), TextStyle.CURSOR))
    info = found[min(number, len(found) - 1)]
    words = f" {group}  {number + 1} of {len(found)}   {info.title}"
    said = f"  {SIMULATED} " if store.simulated else ""
    return line(Span(left(words, cells - len(said)) + said, TextStyle.CURSOR))


def headline_lines(store: Store, info: WorkloadInfo, cells: int, note: str = "") -> list[Line]:
    """What the room is to see first: what runs, the time on each device, the speed-up.

    Args:
        store: what is known.
        info: the page's workload.
        cells: width of a line.
        note: what else is to be said, last.
    """
    rows = settings_lines(store, info, cells)
    heads = len(rows)
    runs = {device: store.demo_run(info, device) for device in devices(store)}
    for device, run in runs.items():
        if device.partition(":")[0] not in info.devices:
            continue
        label = Span(f"{left(device, DEVICE_CELLS)} ", TextStyle.KEY)
        rows += flow([(label, *part) for part in [_status(store, info, run)]], cells, indent="  ")
    times = [
        run.result.time.median_s
        for run in runs.values()
        if run and run.result and run.result.time and run.result.time.median_s
    ]
    if len(times) > 1:
        names = list(runs)
        words = f"{names[1]} {text.ratio(times[0] / times[1])} as fast as {names[0]}"
        rows += paragraph(words, cells, TextStyle.STRONG)
    if len(rows) == heads:
        rows.append(not_run(store, info))
    for run in runs.values():
        for warning in warnings_of(run) if run else ():
            rows += paragraph(
                f"{glyphs.GLYPHS.warning} {warning}", cells, TextStyle.NOTE, indent="  "
            )
    return [*rows, *paragraph(note, cells, TextStyle.NOTE, indent="  ")] if note else rows


def settings_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """The workload with its parameters by name and value, and what of the user's is otherwise."""
    settings = parameters.defaults(info)
    named: list[Line] = [line(_setting(info, *each)) for each in settings.items()]
    default = Span("(the defaults)" if named else "no parameters", TextStyle.QUIET)
    rows = flow(
        [line(Span(info.name, TextStyle.STRONG)), *named, line(default)], cells, indent="  "
    )
    edited = parameters.changed(info, present_settings(store, info))
    if edited:
        words = ", ".join(_setting(info, *each) for each in edited.items())
        rows += paragraph(
            f"your table has {words}: not used here", cells, TextStyle.NOTE, indent="  "
        )
    acting = {
        flag.name: flag for on in devices(store) for flag in flags_that_act(store, info.name, on)
    }
    switched = [
        f"{name} is {'on' if store.flags[name] else 'off'}"
        for name, flag in acting.items()
        if store.flags.get(name, flag.default) != flag.default
    ]
    if switched:
        words = f"flags that are not at their default: {', '.join(switched)}"
        rows += paragraph(words, cells, TextStyle.NOTE, indent="  ")
    return rows


def _setting(info: WorkloadInfo, name: str, value: Setting) -> str:
    return f"{name} = {parameters.text_of(value, auto=name in parameters.autos(info))}"


def _status(store: Store, info: WorkloadInfo, run: RunState | None) -> Line:
    if run is None:
        return not_run(store, info)
    known = run.result or run.so_far
    spans: list[Span] = []
    if known is not None and known.time is not None:
        spans += _figures(known)
    if run.result is None:
        words = progress_words(run.progress) if run.progress else "queued"
        estimate = run.progress.estimate_s if run.progress and known is None else None
        if estimate is not None:
            spans.append(Span(f"{text.seconds(estimate, 0.1)}  ", TextStyle.STRONG))
        spans.append(Span(words, TextStyle.KEY))
    elif run.result.status != "ok":
        style = TextStyle.BAD if run.result.status == "failed" else TextStyle.NOTE
        spans.append(Span(f"{run.result.status}: {run.result.reason}", style))
    return tuple(spans)


def _figures(result: RunResult) -> list[Span]:
    assert result.time is not None
    spans = [Span(median(result.time), TextStyle.STRONG)]
    width = half_width(result.time)
    spans.append(Span(f" {text.spread(width)}" if width is not None else "", TextStyle.QUIET))
    known = [words for words in (rate(result), of_limit(result)) if words not in ("", text.NA)]
    spans += [Span(f"   {words}", TextStyle.STRONG) for words in known]
    return [*spans, Span("   ")]


def page_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """Explanation and code, then what each device's study has found."""
    rows = [*paragraph(info.about, cells), ()]
    rows += [*paragraph(info.look_for, cells, label="Look for: "), ()]
    if info.needs:
        rows += [*paragraph(", ".join(info.needs), cells, label="Needs: "), ()]
    rows += code_lines(info, cells)
    for device in devices(store):
        run = store.demo_run(info, device)
        known = (run.result or run.so_far) if run else None
        found = finding_lines(known, cells) if known else []
        if found:
            rows += [
                (),
                line(Span(f"{glyphs.GLYPHS.rule * 2} {device} ", TextStyle.STRONG)),
                *found,
            ]
    return rows


def no_such_group(store: Store, group: str, cells: int) -> list[Line]:
    """Which groups there are."""
    names = ", ".join(dict.fromkeys(info.group for info in store.catalogue))
    return paragraph(f"There is no group {group}; there are {names}.", cells, TextStyle.BAD)
