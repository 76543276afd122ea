"""The first page of an open snapshot: why memory ran out, who owned it, and remedies."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.bars import draw_gauge
from tui.kit.lines import (
    TITLE_GAP,
    Line,
    Span,
    TextStyle,
    beside,
    cell_len,
    fit_line,
    flow,
    line,
    paragraph,
    width,
    wrap,
)
from tui.snapshots.explain.explain import format_request_place
from tui.snapshots.explain.explanation import AccountRow, Explanation, Remedy
from tui.snapshots.model.facts import (
    Fact,
    format_used,
    list_summary_facts,
    list_verdict_facts,
    select_displayed_facts,
)
from tui.snapshots.model.results import (
    AGAINST_OOM,
    NO_HELP,
    NO_STACK_OF_EVENT,
    OF_CACHED,
    FileInfo,
    SiteRow,
    Summary,
    Verdict,
    lacks_sites,
)
from tui.snapshots.views.shared_lines import (
    FRAME_STYLES,
    UTC,
    bulleted,
    fit_place,
    format_clock,
    indented,
    labelled_figure,
    site_heading,
    site_line,
    stack_lines,
)

SHOWN_SETTINGS = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "expandable_segments": "False",
    "max_split_size": "-1",
}
"""Settings of the allocator that are shown, each with its value where it is off."""


_NAME = 18
"""Width of a cause's name, in cells."""
LEAST_BAR, MOST_BAR, BESIDE_BAR = 12, 30, 35
"""Least and most width of a cause's bar, and the cells of figures, name and gaps beside it."""
COLUMN_GAP = 2
TWO_COLUMNS_FROM = 150
"""Minimum width, in cells, for the remedies and the place to stand beside the account."""
BAR_FROM, WORDS_FROM = 48, 64
"""Minimum widths, in cells, for a row's bar and for its explanation."""
FEWEST_ROWS_WITH_REST = 7
"""Number of account rows above which small rows are combined into one."""
MOST_FRAMES = 5
"""The most lines of a stack below a verdict; the innermost frames tell most."""
SMALL = 0.005
"""Share of the used memory below which a row counts as small: no bar, and ``<1%``."""


# ---- the verdict and the file --------------------------------------------------------------------


def verdict_lines(
    verdict: Verdict, summary: Summary, cells: int, *, explained: bool = True
) -> list[Line]:
    """Draw one failed allocation: cause, owners, remedies, request and place.

    Args:
        verdict: the verdict.
        summary: the device.
        cells: width of a line.
        explained: include the reasons and every figure, else only the remedies and their figures.
    """
    rows = first_lines(verdict.explanation, cells)
    if explained:
        which, *facts = verdict_title(verdict, summary)
        quiet = Span(f", {', '.join(facts)}", TextStyle.QUIET)
        rows.insert(0, line(Span(which, TextStyle.STRONG), quiet))
    return rows + verdict_body_lines(verdict, cells, explained=explained)


def verdict_body_lines(verdict: Verdict, cells: int, *, explained: bool = True) -> list[Line]:
    """Draw what follows the first lines of a verdict: owners, remedies, request and place.

    Args:
        verdict: the verdict.
        cells: width of a line.
        explained: include the reasons and every figure, else only the remedies and their figures.
    """
    two = cells >= TWO_COLUMNS_FROM and not explained
    near = cells * 11 // 20 if two else cells
    far = cells - near - COLUMN_GAP if two else cells
    account = account_lines(verdict.explanation, near, whole=explained)
    advice = advice_lines(verdict.advice, far, AGAINST_OOM, explained=explained)
    request = _request_lines(verdict, near, explained=explained)
    top = top_lines("Live memory by site at this event", verdict.top, near)
    if not verdict.top or lacks_sites(verdict.top) or (not explained and _names_sites(verdict)):
        # Without a site to name, the account is more informative.
        top = []
    stack = _requester_lines(verdict, far, MOST_FRAMES)
    requested = [(), line(Span("Requested at", TextStyle.HEADING)), *stack]
    # If the request is to blame, its origin matters more than the owners of memory.
    blamed = verdict.cause in ("larger than the device", "larger than what was free")
    if two:
        right = requested + advice if blamed else advice + requested
        return beside(account + request + top, right, near)
    rest = requested + advice + request + top if blamed else advice + request + top + requested
    return account + rest


def verdict_title(verdict: Verdict, summary: Summary) -> tuple[str, ...]:
    """Return the title of a verdict: which OOM on which device, its event and its time."""
    return (*oom_title(verdict.event, summary), format_clock(verdict.time_us))


def fit_title(facts: Sequence[str], cells: int) -> tuple[str, ...]:
    """Return the facts of a title with as much of the last one, a time, as fits.

    The seconds and the zone are left out first, then the time.
    """
    *others, clock = facts
    minute = clock[: clock.rindex(":")] if clock.endswith(UTC) else clock
    for words in (clock, minute):
        if cell_len(TITLE_GAP.join((*others, words))) <= cells:
            return (*others, words)
    return tuple(others)


def oom_title(event: int, summary: Summary) -> tuple[str, ...]:
    """Return the title of an OOM before its verdict is known."""
    place = summary.ooms.index(event) + 1 if event in summary.ooms else 0
    which = f"OOM {place} of {len(summary.ooms)}" if len(summary.ooms) > 1 else "OOM"
    return f"{which} on device {summary.device}", f"event {event} of {summary.events}"


def _names_sites(verdict: Verdict) -> bool:
    """Return whether the account names the site that held most."""
    most = verdict.top[0].label
    return any(most in row.description for row in verdict.explanation.account)


def _request_lines(verdict: Verdict, cells: int, *, explained: bool) -> list[Line]:
    """Draw the failed request in the allocator's terms, with its figures and doubts."""
    facts = list_verdict_facts(verdict)
    sentence = verdict.headline if explained else f"{verdict.headline} (i)"
    if not explained and verdict.explanation.refusal:
        # The line above the account has the cause.
        sentence = f"Could not allocate {text.size(verdict.requested)} (i)"
    rows = [(), *paragraph(sentence, cells, TextStyle.PLAIN)]
    rows += _figure_lines(facts, cells) if explained else _known_figure_lines(facts, cells)
    if explained:
        rows += reason_lines(verdict, cells)
    for doubt in verdict.state.doubts:
        rows += bulleted(doubt, cells, TextStyle.NOTE, "!")
    return rows


def reason_lines(verdict: Verdict, cells: int) -> list[Line]:
    """Draw the reasons for the cause in the allocator's terms."""
    return [row for reason in verdict.reasons for row in bulleted(reason, cells)]


def explain_lines(verdict: Verdict, summary: Summary, cells: int) -> list[Line]:
    """Draw the parts that :func:`verdict_lines` leaves out, and the device as a whole."""
    return [
        *paragraph(verdict.headline, cells, TextStyle.STRONG),
        *reason_lines(verdict, cells),
        (),
        *_figure_lines(list_verdict_facts(verdict), cells),
        *account_lines(verdict.explanation, cells),
        *advice_lines(verdict.advice, cells, AGAINST_OOM),
        (),
        line(Span("Requested at", TextStyle.HEADING)),
        *_requester_lines(verdict, cells, whole=True),
        (),
        *summary_lines(summary, cells),
    ]


def _requester_lines(
    verdict: Verdict, cells: int, most: int | None = None, *, whole: bool = False
) -> list[Line]:
    """Draw the stack of the request; without one, the known place, such as its backward pass."""
    where = verdict.explanation.where
    if verdict.stack or where is None:
        return stack_lines(verdict.stack, cells, most, whole=whole)
    place = format_request_place(where, backward=verdict.explanation.backward)
    return [
        *bulleted(place, cells, mark=glyphs.GLYPHS.selected),
        *bulleted(NO_STACK_OF_EVENT, cells, TextStyle.QUIET, mark=" "),
    ]


def _figure_lines(facts: Sequence[Fact], cells: int) -> list[Line]:
    shown = select_displayed_facts(facts, detail=False)
    return flow([labelled_figure(fact.name, fact.formatted) for fact in shown], cells)


_SHOWN_ABOVE = ("", "asked", "live", "reserved", "cached")
"""Paths of facts in the headline and in the account."""


def _known_figure_lines(facts: Sequence[Fact], cells: int) -> list[Line]:
    """Draw the known figures, and the names of figures that the exception's text may have."""
    displayed = select_displayed_facts(facts, detail=False)
    shown = [fact for fact in displayed if fact.path not in _SHOWN_ABOVE]
    items = [labelled_figure(fact.name, fact.formatted) for fact in shown if fact.value is not None]
    unknown = ", ".join(fact.name for fact in shown if fact.value is None)
    if unknown:
        items.append(line(Span(f"{unknown} {text.NA} (I)", TextStyle.QUIET)))
    return flow(items, cells)


def summary_lines(summary: Summary, cells: int, *, sites: bool = True) -> list[Line]:
    """Draw one device: its figures, largest sites and remarks.

    Args:
        summary: the device.
        cells: width of a line.
        sites: list the largest sites, which a verdict above has already listed.
    """
    rows = paragraph(summary.headline, cells, label=f"device {summary.device}: ")
    rows += _figure_lines(list_summary_facts(summary), cells)
    rows += remark_lines(summary, cells)
    if sites and not lacks_sites(summary.top):
        rows += top_lines(f"Memory by site at the {summary.top_at}", summary.top, cells)
    rows += advice_lines(summary.advice, cells, OF_CACHED)
    return rows


def remark_lines(summary: Summary, cells: int) -> list[Line]:
    """Draw the remarks on one device."""
    return [
        row for remark in summary.remarks for row in bulleted(remark, cells, TextStyle.NOTE, "!")
    ]


def top_lines(title: str, top: Sequence[SiteRow], cells: int) -> list[Line]:
    """Draw the sites that held the most memory."""
    rows: list[Line] = [(), line(Span(title, TextStyle.HEADING))]
    if not top:
        return [*rows, line(Span("   nothing was live", TextStyle.QUIET))]
    rows.append(site_heading("site", cells))
    return rows + [
        site_line(item, line(Span(item.label, FRAME_STYLES[item.kind])), cells) for item in top
    ]


def advice_lines(
    advice: Sequence[Remedy], cells: int, title: str = "", *, explained: bool = True
) -> list[Line]:
    """Draw the advice below a title if there is one; ``explained`` with the reason of each.

    Measures that would not help follow the numbered remedies.
    """
    helpful = [item for item in advice if not item.futile]
    rows: list[Line] = [(), line(Span(title, TextStyle.HEADING))] if title and helpful else []

    def explain(item: Remedy) -> list[Line]:
        if not explained:
            return []
        return indented(wrap(item.why, max(10, cells - 5)), 5, TextStyle.QUIET)

    for number, item in enumerate(helpful, start=1):
        rows += [*bulleted(item.what, cells, mark=f"{number}"), *explain(item)]
    for item in advice:
        if item.futile:
            rows += [*paragraph(item.futile, cells, label=f"{NO_HELP}: "), *explain(item)]
    return rows


def exception_lines(message: str, source: str, cells: int) -> list[Line]:
    """Draw the text of the exception and its source."""
    title = line(Span("Text of the exception", TextStyle.HEADING))
    from_where = indented(wrap(f"from: {source}", max(10, cells - 3)), 3, TextStyle.QUIET)
    return [(), title, *indented(wrap(message, max(10, cells - 3)), 3), *from_where]


def file_lines(info: FileInfo, cells: int) -> list[Line]:
    """Draw a file's name and type, its allocator settings and its irregularities."""
    parts = [
        line(Span("File", TextStyle.HEADING), f"  {info.file}"),
        line(text.size(info.byte) if info.byte else "from a pipe"),
        line(info.container),
        *_peculiarities(info),
    ]
    return [(), *flow(parts, cells, indent="   "), *_file_warnings(info, cells)]


def peculiarity_lines(info: FileInfo, cells: int) -> list[Line]:
    """Draw what is unusual about a file; nothing about a usual one."""
    parts = _peculiarities(info)
    rows = flow([line(Span("File", TextStyle.HEADING)), *parts], cells, indent="   ")
    rows = [*(rows if parts else ()), *_file_warnings(info, cells)]
    return [(), *rows] if rows else []


def _peculiarities(info: FileInfo) -> list[Line]:
    parts: list[Line] = []
    if info.form != "snapshot":
        words = {
            "segments": "a bare list of segments: no trace in it",
            "history": "the form of torch 2.0",
        }
        parts.append(line(words.get(info.form, info.form)))
    parts += [
        line(Span(f"{name} ", TextStyle.QUIET), info.settings[name])
        for name, off in SHOWN_SETTINGS.items()
        if info.settings.get(name, off) != off
    ]
    if info.host_segments:
        parts.append(line(f"{text.count(info.host_segments, 'pinned-host segment')}, not shown"))
    return parts


def _file_warnings(info: FileInfo, cells: int) -> list[Line]:
    return [row for words in info.warnings for row in bulleted(words, cells, TextStyle.NOTE, "!")]


# ---- the explanation of an OOM -------------------------------------------------------------------


def first_lines(explanation: Explanation, cells: int) -> list[Line]:
    """Draw the first lines: the cause; then the failed request, its place and step."""
    failure, reason = explanation.split()
    rows = paragraph(failure, cells, TextStyle.BAD)
    return paragraph(reason, cells, TextStyle.STRONG) + rows if reason else rows


def account_lines(explanation: Explanation, cells: int, *, whole: bool = True) -> list[Line]:
    """Draw the causes that fill the device's used memory, each with bytes, share and bar.

    Args:
        explanation: the explanation.
        cells: width of a line.
        whole: wrap the words about a cause, else cut them to one line.
    """
    rows: list[Line] = [(), *paragraph(format_used(explanation), cells, TextStyle.HEADING)]
    shown, small = _split_account(explanation.account)
    bar = bar_cells(shown, cells)
    for place, row in enumerate(shown):
        largest = not place
        if whole:
            rows += _account_rows(row, cells, bar, largest=largest)
        else:
            rows.append(account_line(row, cells, bar, largest=largest))
    if small:
        names = ", ".join(f"{row.name} {text.size(row.bytes)}" for row in small)
        words = f"less than 1%: {names}"
        lead = min(14, cells // 4)
        wrapped = wrap(words, cells - lead) if whole else [words]
        rows += [fit_line(row, cells) for row in indented(wrapped, lead, TextStyle.QUIET)]
    return rows


def _split_account(account: Sequence[AccountRow]) -> tuple[list[AccountRow], list[AccountRow]]:
    if len(account) <= FEWEST_ROWS_WITH_REST:
        return list(account), []
    small = [row for row in account if row.share < SMALL]
    return [row for row in account if row.share >= SMALL], small


def account_line(row: AccountRow, cells: int, bar: int, *, largest: bool = False) -> Line:
    """Draw one cause on one line, with as much of its explanation as fits."""
    parts = _account_head(row, cells, bar, largest=largest)
    if cells >= WORDS_FROM:
        about = fit_place(row.description, max(1, cells - width(parts) - 1))
        parts = line(*parts, Span(f" {about}", TextStyle.QUIET))
    return fit_line(parts, cells)


def _account_rows(row: AccountRow, cells: int, bar: int, *, largest: bool) -> list[Line]:
    """Draw one cause with all of its explanation."""
    head = _account_head(row, cells, bar, largest=largest)
    if cells < WORDS_FROM:
        return [fit_line(head, cells)]
    lead = width(head) + 1
    first, *more = wrap(row.description, max(10, cells - lead)) or [""]
    return [line(*head, Span(f" {first}", TextStyle.QUIET)), *indented(more, lead, TextStyle.QUIET)]


def _account_head(row: AccountRow, cells: int, bar: int, *, largest: bool) -> Line:
    """Draw bytes, share, bar and name; the figures of the largest cause stand out."""
    style = TextStyle.NOTE if row.name == "unknown" else TextStyle.PLAIN
    figures = f"{text.size(row.bytes):>9} {text.share(row.share):>4} "
    parts: list[str | Span] = [Span(figures, TextStyle.STRONG if largest else TextStyle.QUIET)]
    if cells >= BAR_FROM:
        share = 0.0 if row.share < SMALL else row.share
        parts += [*draw_gauge(share, bar, TextStyle.ALLOCATED), Span(" ")]
    parts.append(Span(f"{row.name:<{_NAME}}", style))
    return line(*parts)


def bar_cells(account: Sequence[AccountRow], cells: int) -> int:
    """Return the width of the bars; they grow only where no explanation loses words."""
    words = max((cell_len(row.description) for row in account), default=0)
    return max(LEAST_BAR, min(MOST_BAR, cells // 4, cells - BESIDE_BAR - words))
