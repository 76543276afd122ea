"""The names, dates and outcomes of stored results, each as a text of one line. Pure."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Sequence

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import cell_len
from tui.results.store.records import StoredRow
from tui.results.store.validity import is_time
from tui.runs.state.oom_reason import shorten_oom
from tui.runs.state.parameters import format_short
from tui.runs.state.result_format import format_end, format_time
from workloads.protocol.results import Setting


def format_name(workload: str, parameters: str) -> str:
    """Return a workload's name with its parameters in short form."""
    return f"{workload} {format_short(json.loads(parameters))}".strip()


def name_rows(rows: Sequence[StoredRow]) -> tuple[str, ...]:
    """Return each row's workload with the parameters in which the listed rows of it differ.

    The lines below the list have all parameters of the row under the cursor.
    """
    parsed: dict[str, dict[str, Setting]] = {
        parameters: json.loads(parameters) for parameters in {row.parameters for row in rows}
    }
    items: dict[str, list[frozenset[tuple[str, Setting]]]] = {}
    for workload, parameters in {(row.workload, row.parameters) for row in rows}:
        items.setdefault(workload, []).append(frozenset(parsed[parameters].items()))
    shared = {workload: frozenset.intersection(*sets) for workload, sets in items.items()}

    def name(row: StoredRow) -> str:
        own = parsed[row.parameters].items()
        differing = {
            name: value for name, value in own if (name, value) not in shared[row.workload]
        }
        return f"{row.workload} {format_short(differing)}".strip()

    return tuple(map(name, rows))


def count_problems(rows: Sequence[StoredRow], mark: str = "") -> list[str]:
    """Count the results with warnings and the failed ones: ``2 with warnings``, ``1 failed``.

    Args:
        rows: the results.
        mark: follows the words about warnings.
    """
    doubtful = sum(bool(row.marks) for row in rows)
    failed = sum(row.status == "failed" for row in rows)
    counts = ((doubtful, f"with warnings{mark}"), (failed, "failed"))
    return [f"{number} {words}" for number, words in counts if number]


def format_short_time(at: float, now: float | None = None) -> str:
    """Format a local time to the minute; in another year, the date alone.

    Args:
        at: Unix time; an impossible time becomes n/a.
        now: present Unix time; ``None`` to read the clock.
    """
    if not is_time(at):
        return text.NA
    local = datetime.datetime.fromtimestamp(at)
    present = datetime.datetime.fromtimestamp(time.time() if now is None else now)
    return f"{local:%m-%d %H:%M}" if local.year == present.year else f"{local:%Y-%m-%d}"


def format_date(at: float) -> str:
    """Format a local date and time to the minute; an impossible time becomes n/a."""
    return text.date(at) if is_time(at) else text.NA


def format_outcome(row: StoredRow) -> str:
    """Format the time of a result with its interval, or the reason for its absence."""
    if row.median_s is None:
        return row.outcome if row.kind == "comparison" else format_end(row.status, row.outcome)
    words = format_time(row)
    return words if row.status == "ok" else f"{words} {row.status}"


def format_results(rows: Sequence[StoredRow]) -> tuple[str, ...]:
    """Return the results, with times that end in the same column, and marks of doubts.

    A comparison has its verdict alone, without its two times.
    """
    warning = f"{glyphs.GLYPHS.warning} "
    texts = [f"{warning if row.marks else ''}{_format_verdict(row)}" for row in rows]
    return _align_times(rows, texts)


def _format_verdict(row: StoredRow) -> str:
    outcome = format_outcome(row)
    verdict, _, times = outcome.rpartition(", ")
    return verdict if " instead of " in times else outcome


def format_figures(rows: Sequence[StoredRow]) -> tuple[str, ...]:
    """Return the results without their states: the times aligned, or why there is none."""
    return _align_times(rows, list(map(_format_figure, rows)))


def _format_figure(row: StoredRow) -> str:
    if row.median_s is not None:
        return format_time(row)
    return row.outcome if row.kind == "comparison" else shorten_oom(row.outcome)


def _align_times(rows: Sequence[StoredRow], texts: Sequence[str]) -> tuple[str, ...]:
    """Return texts of the rows whose times end in the same column."""
    heads = [
        cell_len(words.partition(f" {glyphs.GLYPHS.plus_minus}")[0]) if row.median_s else 0
        for row, words in zip(rows, texts, strict=True)
    ]
    longest = max(heads, default=0)
    return tuple(
        f"{' ' * (longest - head)}{words}" if head else words
        for head, words in zip(heads, texts, strict=True)
    )
