"""Why an allocation failed: the first line, and the account of the used memory with bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import Line, Span, TextStyle, fit_line, line, paragraph, wrap
from tui.snapshots.explain.explanation import AccountRow, Explanation, Remedy
from tui.snapshots.model.facts import used_words

_NAME, _BAR = 18, 12
"""Widths of a cause's name and of its bar, in cells."""
BAR_FROM, WORDS_FROM = 48, 64
"""Minimum widths, in cells, for a row's bar and for its explanation."""
FEWEST_ROWS_WITH_REST = 7
"""Number of account rows above which small rows are combined into one."""
SMALL = 0.005
"""Share of the used memory below which a row counts as small."""


def first_lines(explanation: Explanation, cells: int) -> list[Line]:
    """Draw the first lines: the failed request, its place and step, and the cause."""
    return paragraph(explanation.line, cells, TextStyle.BAD)


def account_lines(explanation: Explanation, cells: int) -> list[Line]:
    """Draw the causes that fill the device's used memory, each with bytes, share and bar."""
    rows: list[Line] = [(), line(Span(used_words(explanation), TextStyle.STRONG))]
    shown, small = _apart(explanation.account)
    rows += [row_line(row, cells) for row in shown]
    if small:
        names = ", ".join(f"{row.name} {text.size(row.bytes)}" for row in small)
        rows += [fit_line(line(Span(f"{'':>14}less than 1%: {names}", TextStyle.QUIET)), cells)]
    return rows


def _apart(account: Sequence[AccountRow]) -> tuple[list[AccountRow], list[AccountRow]]:
    if len(account) <= FEWEST_ROWS_WITH_REST:
        return list(account), []
    small = [row for row in account if row.share < SMALL]
    return [row for row in account if row.share >= SMALL], small


def row_line(row: AccountRow, cells: int) -> Line:
    """Draw one cause: bytes, share, bar, name and explanation."""
    style = TextStyle.NOTE if row.name == "unknown" else TextStyle.PLAIN
    parts: list[str | Span] = [
        Span(f"{text.size(row.bytes):>9} {text.share(row.share):>4} ", TextStyle.QUIET)
    ]
    if cells >= BAR_FROM:
        full = max(1, min(_BAR, round(_BAR * row.share)))
        filled, rest = glyphs.GLYPHS.slices["allocated"], glyphs.GLYPHS.slices["free"]
        parts.append(Span(filled * full, TextStyle.ALLOCATED))
        parts.append(Span(f"{rest * (_BAR - full)} ", TextStyle.REST))
    parts.append(Span(f"{row.name:<{_NAME}}", style))
    if cells >= WORDS_FROM:
        parts.append(Span(f" {row.words}", TextStyle.QUIET))
    return fit_line(line(*parts), cells)


def advice_lines(advice: Sequence[Remedy], cells: int, most: int = 3) -> list[Line]:
    """Draw the first few remedies, each with its figure."""
    rows: list[Line] = []
    for number, remedy in enumerate(advice[:most], start=1):
        rows += paragraph(f" {number} {remedy.what}", cells, indent="   ")
        why = wrap(remedy.why, max(10, cells - 5))
        rows += [line(Span(f"     {each}", TextStyle.QUIET)) for each in why]
    return rows
