"""Snapshot reports for commands: a reader with its progress on stderr, and plain text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tui.core.text import numbers as fmt
from tui.kit.command_line.output import Failure, text_width
from tui.kit.command_line.progress import ProgressLine
from tui.kit.lines import Line, Span, TextStyle, line, plain
from tui.snapshots.explain.evidence import OomContext
from tui.snapshots.model.calls import (
    DIFFERENCE,
    SITES,
    STATE,
    VERDICT,
    DifferenceArguments,
    SitesArguments,
    StateArguments,
    VerdictArguments,
)
from tui.snapshots.model.results import FileInfo, Summary, Verdict
from tui.snapshots.reader.messages import Load, Loaded
from tui.snapshots.session.snapshot_reader import CallError, SnapshotReader, format_paths
from tui.snapshots.views.opening import format_progress
from tui.snapshots.views.overview import (
    file_lines,
    peculiarity_lines,
    remark_lines,
    summary_lines,
    verdict_body_lines,
    verdict_lines,
)
from tui.snapshots.views.shared_lines import state_lines
from tui.snapshots.views.sites import (
    SiteLine,
    difference_head,
    difference_heading,
    difference_line,
    node_line,
)

MOST_VERDICTS = 3
"""OOMs per device to explain in full; a library that retries leaves many."""


def without_context(_path: Path) -> None:
    """Return no facts of a watched run."""


@asynccontextmanager
async def open_reader(
    load: Load, find_context: Callable[[Path], OomContext | None] = without_context
) -> AsyncIterator[SnapshotReader]:
    """Start a reader, show its progress on stderr, and end it with the block.

    Args:
        load: the files and options.
        find_context: returns a watched run's facts about a snapshot; ``None`` for no run.

    Raises:
        Failure: the files cannot be read, or a call in the block failed.
    """
    line_of_progress = ProgressLine()

    def show() -> None:
        store = reader.store
        if store.status != "loading":
            line_of_progress.clear()
        elif store.progress is not None:
            line_of_progress.show(format_progress(store.progress))
        elif store.estimate is not None:
            line_of_progress.show(f"{format_paths(store.paths)}: {store.estimate.words}")

    reader = SnapshotReader(show, known=find_context)
    reader.load(load)
    try:
        yield reader
    except CallError as error:
        raise Failure(str(error)) from error
    finally:
        line_of_progress.clear()
        await reader.stop()


async def snapshot_text(
    reader: SnapshotReader,
    loaded: Loaded,
    *,
    event: int | None,
    top: int,
    at_peak: bool,
    compares: bool,
) -> str:
    """Return the text that ``snapshot`` prints.

    Args:
        reader: reader with the loaded files.
        loaded: the result of loading.
        event: show the state after this event; ``None`` for the whole trace.
        top: number of sites to list.
        at_peak: compare the peaks, not the ends.
        compares: compare two files.

    Raises:
        Failure: there is no such event, or nothing to compare.
    """
    cells = text_width()
    if compares:
        rows = await _difference(reader, loaded, cells, top, at_peak=at_peak)
    elif event is not None:
        rows = await _read_event(reader, loaded, event, cells, top)
    else:
        rows = await _overview(reader, loaded, cells, top)
    return _format_rows(rows)


def verdict_text(verdict: Verdict, summary: Summary, files: Sequence[FileInfo]) -> str:
    """Return the text about one OOM that follows a headline with its cause, step and place.

    Args:
        verdict: the verdict.
        summary: its device.
        files: the files that were read.
    """
    cells = text_width()
    rows = verdict_body_lines(verdict, cells)
    if remarks := remark_lines(summary, cells):
        rows += [(), *remarks]
    for info in files:
        rows += peculiarity_lines(info, cells)
    return _format_rows(rows)


def _format_rows(rows: Sequence[Line]) -> str:
    return "".join(f"{plain(row).rstrip()}\n" for row in rows)


async def _overview(reader: SnapshotReader, loaded: Loaded, cells: int, top: int) -> list[Line]:
    """Return the verdicts and summary of each device, then the file's facts."""
    rows: list[Line] = []
    for summary in loaded.devices:
        rows += await _verdicts(reader, summary, cells, top)
        rows += summary_lines(summary, cells, sites=not summary.ooms)
    if not loaded.devices:
        rows.append(line("no device in this file"))
    for info in loaded.files:
        rows += file_lines(info, cells)
    return rows


async def _verdicts(reader: SnapshotReader, summary: Summary, cells: int, top: int) -> list[Line]:
    rows: list[Line] = []
    # The last one ended the program; a library that retries leaves others before it.
    shown = summary.ooms[-MOST_VERDICTS:][::-1]
    for event in shown:
        verdict = await reader.call(VERDICT, VerdictArguments(summary.device, event, top))
        rows += [*verdict_lines(verdict, summary, cells), ()]
    others = len(summary.ooms) - len(shown)
    if others:
        rows += [line(f"{fmt.count(others, 'earlier OOM')}: --json lists them all"), ()]
    return rows


async def _read_event(
    reader: SnapshotReader, loaded: Loaded, event: int, cells: int, top: int
) -> list[Line]:
    """Return the state of each device right after an event, and its memory by site.

    Raises:
        Failure: no device has such an event.
    """
    having = [summary for summary in loaded.devices if 0 <= event < summary.events]
    if not having:
        longest = max((summary.events for summary in loaded.devices), default=0)
        have = f"events 0 to {longest - 1}" if longest else "no trace"
        raise Failure(f"--at {event}: the file has {have}")
    rows: list[Line] = []
    for summary in having:
        entry = await reader.call(STATE, StateArguments(summary.device, event))
        rows.append(line(Span(f"device {summary.device}", TextStyle.STRONG)))
        rows += state_lines(entry, summary.events, None, cells)
        arguments = SitesArguments(summary.device, event, limit=top)
        listing = await reader.call(SITES, arguments)
        rows += [(), line(Span("Live memory by site at this event", TextStyle.STRONG))]
        rows += [
            node_line(SiteLine((row.key,), row), unfolded=False, cells=cells)
            for row in listing.rows
        ]
        if listing.more:
            rest = f"{fmt.size(listing.more_bytes):>9} in {fmt.count(listing.more)} more"
            rows.append(line(rest))
        rows.append(())
    return rows


async def _difference(
    reader: SnapshotReader, loaded: Loaded, cells: int, top: int, *, at_peak: bool
) -> list[Line]:
    """Return the changes on each device that both files have.

    Raises:
        Failure: there is none.
    """
    if not loaded.common:
        raise Failure("the two files have no device in common")
    rows: list[Line] = []
    for device in loaded.common:
        arguments = DifferenceArguments(device, at_peak, limit=top)
        answer = await reader.call(DIFFERENCE, arguments)
        rows += difference_head(answer.difference, cells)
        if listed := answer.difference.rows:
            rows += [
                (),
                difference_heading(cells),
                *(difference_line(row, cells) for row in listed),
            ]
        if answer.more:
            rows.append(line(f"and {fmt.count(answer.more)} smaller changes: --top shows more"))
        rows.append(())
    return rows
