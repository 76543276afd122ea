"""The full account of a device's memory, or of a process's memory. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tui.allocators.findings import Finding
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import OWN_RUNNER, shorten_command
from tui.devices.memory import Gauge, Term
from tui.devices.memory.figures import explain_no_processes
from tui.devices.memory.model import Absent, Stale, format_reading, get_value
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.views.device_detail import Fact
from tui.devices.views.device_page import section_heading
from tui.devices.views.memory import (
    EMPTY_KEY,
    Reasons,
    choose_free_label,
    drop_absent,
    find_shared_reasons,
    is_absent_for,
    other_lines,
    reason_lines,
    warning_lines,
)
from tui.devices.views.memory_tree import TREE_KEYS, TreeRow, build_tree, list_flat
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    beside,
    cell_len,
    fit_line,
    left,
    paragraph,
    right,
    width,
    wrap,
)
from tui.monitor.messages import GpuProcess

NAME_CELLS = 19
SIZE = text.SIZE_WIDTH + 1
BESIDE_FROM = 150
"""Least width in cells to show the device's facts beside the account."""
RELEASABLE = "releasable"
OURS = "of this workbench: "
"""Precedes the command of a process of this program."""
FREES = f"{EMPTY_KEY} frees"
"""Text beside the releasable memory of this program."""
TOTALS = frozenset({"allocated", "reserved", "process", "used", "free", "total"})
"""Keys of the terms that are shown even if they are zero."""
MOST_NAMED = 6
"""From this many figures with the same reason on, not all are named."""
COLUMNS_FROM = 90
"""Least width in cells to show sections in two columns."""
TREE_CELLS, LEAST_BESIDE_TREE = 43, 30
"""Cells of the tree, and the fewest beside it for the other figures, on narrower screens."""
ABOUT_FROM = 30
"""Cells that a remark needs to stand on the line of its figure."""
_SECTIONS = {
    "requested": "torch's allocator",
    "context": "process and device",
    "heap_in_use": "heap of the runner",
    "unique": "host",
    "pinned": "host memory of the runner",
}
"""Headings by the term that follows them."""
ACCOUNT = "account"
"""Heading of the tree."""
_SHORT = {
    "torch memory_stats": "torch",
    "torch mem_get_info": "torch",
    "torch host_memory_stats": "torch",
    "operating system": "system",
    "operating system, sampled": "sampled",
    "C library": "libc",
    "read from outside": "torch",
}


def account_lines(
    gauge: Gauge,
    view: DeviceView,
    facts: list[Fact],
    worker_pid: int | None,
    cells: int,
    about: str = "device",
    shown_beside: Collection[str] = (),
) -> list[Line]:
    """Return all lines below the bar and its legend, including the facts of the device.

    :func:`account_details` has the source and the meaning of each figure.

    Args:
        gauge: the account.
        view: the device.
        facts: facts of the device itself.
        about: the subject of the facts.
        worker_pid: our own process, marked among the processes on the device.
        cells: width of a line.
        shown_beside: keys of peaks and labels of counters that are beside the account, which
            leaves them out.
    """
    gauge = _choose_terms(gauge, shown_beside)
    wide = cells >= BESIDE_FROM
    main = cells * 3 // 5 if wide else cells
    reasons = find_shared_reasons(gauge)
    lines = [
        *other_lines(gauge.others, main),
        *warning_lines(gauge, main),
        *_arrange_figures(gauge, view, worker_pid, reasons, main),
        *(_section("not known", main) if reasons else ()),
        *reason_lines(reasons, main, MOST_NAMED),
    ]
    if not wide:
        lines += _facts(facts, about, cells)
        return lines if lines[0] else lines[1:]
    side = _facts(facts, about, cells - main - 2)
    if not lines[0] and not side[0]:
        return beside(lines[1:], side[1:], main)
    return beside(lines, side, main)


def _choose_terms(gauge: Gauge, shown_beside: Collection[str]) -> Gauge:
    """Return the account without figures that repeat the bar: :func:`account_details` has them.

    Left out are peaks with a key in ``shown_beside``, counters with such a label or of nothing,
    peaks that no sample has, and figures that this kind of process never reports. So are sampled
    peaks below the reserved one, which is exact: no sample was taken at that time.
    """
    missing = gauge.wording.no_workspace
    reserved = next(
        (get_value(term.bytes) for term in gauge.peaks if term.key == "reserved_peak"), None
    )
    return replace(
        gauge,
        terms=tuple(
            term
            for term in gauge.terms
            if not (isinstance(term.bytes, Absent) and term.bytes.reason == missing)
        ),
        peaks=tuple(
            term
            for term in gauge.peaks
            if not isinstance(term.bytes, Absent)
            and term.key not in shown_beside
            and not ("sampled" in term.source and (get_value(term.bytes) or 0) < (reserved or 0))
        ),
        counters=tuple(
            counter
            for counter in gauge.counters
            if get_value(counter.count) != 0 and counter.label not in shown_beside
        ),
    )


def account_details(
    gauge: Gauge, view: DeviceView, cells: int, findings: Sequence[Finding] = ()
) -> list[Line]:
    """Return the account in sentences, then every known figure with its source and its meaning.

    Args:
        gauge: the account.
        view: the device.
        cells: width of a line.
        findings: on the process over time; their sources follow them.
    """
    found = [f"{finding.text} ({finding.source})" for finding in findings]
    rows = [row for words in found for row in paragraph(words, cells, indent="  ")]
    reasons = find_shared_reasons(gauge)
    blocks = _figures(gauge, view, reasons, cells, explained=True)
    if reasons:
        blocks.append([*_section("not known", cells), *reason_lines(reasons, cells)])
    doubts, sentences = warning_lines(gauge, cells), paragraph(" ".join(gauge.explanation), cells)
    gap: list[Line] = [()] if doubts and sentences else []
    rows += [*([()] if rows and (doubts or sentences) else []), *doubts, *gap, *sentences]
    return [*rows, *(row for block in blocks for row in block)]


def _figures(
    gauge: Gauge, view: DeviceView, reasons: Reasons, cells: int, *, explained: bool
) -> list[list[Line]]:
    """Return the known figures by section, ``explained`` with their sources and meanings."""
    known = drop_absent(gauge, reasons)
    peaks = _term_rows(list_flat(known.peaks), cells, explained=explained)
    blocks = [
        *_terms(gauge, reasons, cells, explained=explained).values(),
        [*_section("peaks", cells), *peaks] if peaks else [],
        _counters(known, cells, explained=explained),
    ]
    has_term = any(term.key == RELEASABLE for term in gauge.terms)
    if not is_absent_for(gauge.would_free, reasons) and (explained or not has_term):
        blocks.append(_would_free(gauge, view, cells, explained=explained))
    return [block for block in blocks if block]


def _arrange_figures(
    gauge: Gauge, view: DeviceView, worker_pid: int | None, reasons: Reasons, cells: int
) -> list[Line]:
    """Return the known figures and the processes: in two columns, beside the tree, or below it."""

    def build(width: int) -> list[list[Line]]:
        blocks = _figures(gauge, view, reasons, width, explained=False)
        processes = _processes(view, worker_pid, width)
        return [*blocks, processes] if processes else blocks

    rest = cells - TREE_CELLS - 2
    if rest >= LEAST_BESIDE_TREE and _column(cells) == cells:
        sections = _terms(gauge, reasons, TREE_CELLS, explained=False)
        if next(iter(sections), "") == ACCOUNT:
            others = [row for block in build(rest)[1:] for row in block]
            return beside(sections[ACCOUNT], others, TREE_CELLS)
    return _in_columns(build(_column(cells)), cells)


def _column(cells: int) -> int:
    """Return the cells of a column: all, or half where two fit."""
    return (cells - 2) // 2 if cells >= COLUMNS_FROM else cells


def _in_columns(blocks: Sequence[list[Line]], cells: int) -> list[Line]:
    """Put sections below each other, or in two columns of about equal length."""
    column = _column(cells)
    every = [row for block in blocks for row in block]
    if column == cells:
        return every
    ends = [sum(len(block) for block in blocks[: index + 1]) for index in range(len(blocks))]
    cut = min(ends, key=lambda end: max(end, len(every) - end), default=0)
    return beside(every[:cut], every[cut:], column)


def _section(title: str, cells: int) -> list[Line]:
    return [(), section_heading(title, cells)]


def _terms(gauge: Gauge, reasons: Reasons, cells: int, *, explained: bool) -> dict[str, list[Line]]:
    """Return the sections of the terms by heading, without those with a reason in ``reasons``.

    Unless all are ``explained``, parts of zero bytes are left out too, and what is a part of what
    is drawn as a tree.
    """
    sections: dict[str, list[Term]] = {}
    title = ""
    for term in gauge.terms:
        title = _SECTIONS.get(term.key, title)
        if is_absent_for(term.bytes, reasons) or (not explained and _is_empty_part(term)):
            continue
        in_tree = not explained and term.key in TREE_KEYS
        sections.setdefault(ACCOUNT if in_tree else title, []).append(term)
    notes = {} if explained or gauge.wording.frees else {RELEASABLE: FREES}
    drawn: dict[str, list[Line]] = {}
    for title, own in sections.items():
        rows = build_tree(own) if title == ACCOUNT else list_flat(own)
        lines = _term_rows(rows, cells, notes, explained=explained)
        drawn[title] = [*_section(title, cells), *lines]
    return drawn


def _is_empty_part(term: Term) -> bool:
    """Return whether a term is a part of a total and known to be zero, which says nothing."""
    return get_value(term.bytes) == 0 and term.key not in TOTALS


def _shared_age(shown: Sequence[TreeRow]) -> Stale[int] | None:
    """Return the reason that several old figures share, with the age of the oldest.

    In a tree, that is the reason of its root.
    """
    old = [row.term.bytes for row in shown if isinstance(row.term.bytes, Stale)]
    reasons = {reading.reason for reading in old}
    if any(row.whole for row in shown):
        root = shown[0].term.bytes
        reasons = {root.reason} if isinstance(root, Stale) else set()
    if len(old) < 2 or len(reasons) != 1:
        return None
    sharing = [reading for reading in old if reading.reason in reasons]
    return max(sharing, key=lambda reading: reading.age_s or 0.0)


def _term_rows(
    shown: Sequence[TreeRow],
    cells: int,
    notes: Mapping[str, str] = MappingProxyType({}),
    *,
    explained: bool,
) -> list[Line]:
    """Return the rows of the terms: name, bytes, any doubt; if ``explained``, more.

    Doubts about the terms of a tree stand below it.

    Args:
        shown: the terms.
        cells: width of a line.
        notes: what to say beside a term, by its key.
        explained: add sources and meanings.
    """
    terms = tuple(row.term for row in shown)
    longest = max((cell_len(row.lead + row.label) for row in shown), default=0)
    least = NAME_CELLS if cells > TREE_CELLS else 0
    name_cells = max(least, longest + 1)
    wide = cells >= 110
    sources = [term.source if wide else _SHORT.get(term.source, term.source) for term in terms]
    gap = " " * 2
    if not explained:
        sources = ["sampled" if "sampled" in term.source else "" for term in terms]
        sources = [notes.get(term.key, source) for term, source in zip(terms, sources, strict=True)]
        gap = " "
    source_cells = max((len(source) for source in sources), default=0)
    lead = name_cells + SIZE + len(gap) + (source_cells + 2 if source_cells else 0)
    shared = _shared_age(shown)
    in_tree = any(row.whole for row in shown)
    doubts: dict[str, list[str]] = {}
    rows: list[Line] = []
    if shared is not None:
        rows += paragraph(f"in grey: {_age(shared)}", cells, TextStyle.QUIET, indent="  ")
    for row, source in zip(shown, sources, strict=True):
        term = row.term
        absent = isinstance(term.bytes, Absent)
        size = term.bytes.short if isinstance(term.bytes, Absent) else text.size(term.bytes.value)
        style = TextStyle.QUIET if absent or isinstance(term.bytes, Stale) else TextStyle.STRONG
        head: Line = (
            Span(row.lead, TextStyle.QUIET),
            Span(left(row.label, name_cells - cell_len(row.lead))),
            Span(right(size, SIZE), style),
            *_render_source(source, gap, source_cells),
        )
        doubt = _explain_doubt(row, shared)
        if in_tree:
            # Further lines would break the branches.
            rows.append(fit_line(head, cells))
            doubts.setdefault(doubt, []).append(row.label)
        else:
            rows += _with_remark(head, doubt or (term.about if explained else ""), lead, cells)
    for doubt, labels in doubts.items():
        words = f"{', '.join(labels)}: {doubt}"
        rows += paragraph(words, cells, TextStyle.QUIET, indent="  ") if doubt else []
    return rows


def _render_source(source: str, gap: str, cells: int) -> Line:
    """Return the source of a term, or the key that frees it."""
    if source == FREES:
        return Span(f"{gap}{EMPTY_KEY}", TextStyle.KEY), Span(source[1:], TextStyle.QUIET)
    return (Span(f"{gap}{left(source, cells)}".rstrip(), TextStyle.QUIET),)


def _explain_doubt(row: TreeRow, shared: Stale[int] | None) -> str:
    """Return why a term is unknown or old; ``shared``, or its whole in a tree, may say that."""
    own, whole = row.term.bytes, row.whole.bytes if row.whole else None
    if isinstance(own, Absent):
        return own.reason
    told = {reading.reason for reading in (shared, whole) if isinstance(reading, Stale)}
    return _age(own) if isinstance(own, Stale) and own.reason not in told else ""


def _age(figure: Stale[int]) -> str:
    """Return how old a figure is and why; a fraction of a second is no age."""
    if figure.age_s is not None and figure.age_s < 1:
        return figure.reason
    age = f"{text.old(figure.age_s)} old" if figure.age_s is not None else "old"
    return f"{age}: {figure.reason}"


def _with_remark(head: Line, remark: str, lead: int, cells: int) -> list[Line]:
    """Return the remark beside its figure, or below it if there is too little room."""
    if not remark:
        return [fit_line(head, cells)]
    room = cells - lead
    if room < ABOUT_FROM:
        below = wrap(remark, max(1, cells - 2))
        return [fit_line(head, cells), *((Span(f"  {row}", TextStyle.QUIET),) for row in below)]
    first, *rest = wrap(remark, room)
    more = [(Span(" " * lead + row, TextStyle.QUIET),) for row in rest]
    return [(*head, Span(" " * (lead - width(head)) + first, TextStyle.QUIET)), *more]


def _counters(gauge: Gauge, cells: int, *, explained: bool) -> list[Line]:
    if not gauge.counters:
        return []
    lines = _section(f"since {gauge.wording.since}", cells)
    for counter in gauge.counters:
        absent = isinstance(counter.count, Absent)
        style = TextStyle.QUIET if absent else TextStyle.STRONG
        head: Line = (
            Span(left(counter.label, NAME_CELLS)),
            Span(right(format_reading(counter.count, text.count), SIZE), style),
        )
        about = counter.about if explained else ""
        remark = counter.count.reason if isinstance(counter.count, Absent) else about
        lines += _with_remark(head, remark, NAME_CELLS + SIZE + 2, cells)
    return lines


def _would_free(gauge: Gauge, view: DeviceView, cells: int, *, explained: bool) -> list[Line]:
    free = gauge.would_free
    if isinstance(free, Absent):
        remark = free.reason
    elif explained:
        remark = "the most that emptying the cache returns"
        if view.key != CPU:
            remark += "; private pools, as of CUDA graphs, may hold some of it"
    else:
        remark = ""
    size = free.short if isinstance(free, Absent) else text.size(free.value)
    upper = f"{glyphs.GLYPHS.at_most}{size}" if get_value(free) else size
    head: Line = (
        Span(left(choose_free_label(gauge), NAME_CELLS)),
        Span(right(upper, SIZE), TextStyle.STRONG),
    )
    return [*_section("cache", cells), *_with_remark(head, remark, NAME_CELLS + SIZE + 2, cells)]


def _facts(facts: list[Fact], about: str, cells: int) -> list[Line]:
    lines = _section(about, cells)
    absent: Reasons = {}
    for label, value in facts:
        if value.startswith(f"{text.NA}: "):
            absent.setdefault(Absent(value.removeprefix(f"{text.NA}: ")), []).append(label)
    shared = {why: labels for why, labels in absent.items() if len(labels) > 1}
    for label, value in facts:
        if Absent(value.removeprefix(f"{text.NA}: ")) in shared:
            continue
        head: Line = (Span(left(label, NAME_CELLS)),)
        first, *rest = wrap(value, max(1, cells - NAME_CELLS))
        lines.append((*head, Span(first)))
        lines += [(Span(" " * NAME_CELLS + row),) for row in rest]
    return [*lines, *reason_lines(shared, cells)]


def _processes(view: DeviceView, worker_pid: int | None, cells: int) -> list[Line]:
    """Return the processes on the device, largest first, with unknown sizes last."""
    if view.nvml is None:
        return []
    lines = _section("processes on the device", cells)
    processes = view.nvml.processes
    if processes is None:
        reason = explain_no_processes(view.nvml)
        return [*lines, *paragraph(f"{text.NA}: {reason}", cells, TextStyle.QUIET)]
    if not processes:
        return [*lines, (Span("none", TextStyle.QUIET),)]
    reasons = Counter(
        reason for process in processes for reason in set(process.unavailable.values())
    )
    shared = {reason: times for reason, times in reasons.items() if times > 1}
    ordered = sorted(processes, key=lambda row: -1 if row.memory is None else row.memory)
    for process in reversed(ordered):
        lines += _process(process, worker_pid, shared, cells)
    for reason, times in shared.items():
        words = f"{text.NA} of {text.count(times, 'process', 'processes')}: {reason}"
        lines += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return lines


def _process(
    process: GpuProcess, worker_pid: int | None, explained: Collection[str], cells: int
) -> list[Line]:
    own = is_worker(process, worker_pid) or process.ours
    narrow = cells <= TREE_CELLS
    head: Line = (
        Span(right(str(process.pid), 8), TextStyle.STRONG if own else TextStyle.PLAIN),
        Span(f" {left(process.user or text.NA, 8 if narrow else 11)}"),
        Span(right(text.size(process.memory), SIZE), TextStyle.STRONG),
        *(() if narrow else (Span(f"  {left(process.kind, 8)}", TextStyle.QUIET),)),
    )
    label = label_command(process, shorten_command(process.command or text.NA), worker_pid)
    reasons = dict.fromkeys(process.unavailable.values())
    remarks = [label, *(reason for reason in reasons if reason not in explained)]
    return _with_remark(head, "; ".join(remarks), width(head) + 1, cells)


def is_worker(process: GpuProcess, worker_pid: int | None) -> bool:
    """Return whether a process is this program's worker, not another that has reused its PID."""
    return process.pid == worker_pid and process.started_at is not None


def label_command(process: GpuProcess, command: str, worker_pid: int | None) -> str:
    """Return the command of a process as the screen names it: this program's own are marked.

    Args:
        process: the process.
        command: its command, whole or shortened.
        worker_pid: this program's worker.
    """
    if is_worker(process, worker_pid):
        return OWN_RUNNER
    return f"{OURS}{command}" if process.ours else command
