"""A snapshot as Markdown, ready to paste into an issue."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.text.glyphs import escape_markdown
from tui.core.text.numbers import count, share
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.analysis import TOP, Analysis, DeviceAnalysis
from tui.snapshots.analysis.report import select_devices
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.explanation import Explanation, Remedy
from tui.snapshots.model.facts import (
    Fact,
    advice_markdown,
    format_used,
    list_summary_facts,
    list_verdict_facts,
    select_displayed_facts,
)
from tui.snapshots.model.results import (
    AGAINST_OOM,
    OF_CACHED,
    Difference,
    OomText,
    Top,
    Verdict,
)
from tui.snapshots.model.snapshot import Frame, classify_frame, format_frame

STACK_LIMIT = 12
DIFF_LIMIT = 50


def snapshot_markdown(
    analysis: Analysis,
    warnings: tuple[str, ...],
    *,
    device: int | None = None,
    at: int | None = None,
    top: int = TOP,
    texts: tuple[OomText, ...] = (),
    circumstances: Circumstances | None = None,
) -> str:
    """Return the report of a file; arguments and errors as for :func:`report.snapshot_report`."""
    snapshot = analysis.snapshot
    lines = [f"# Allocator snapshot `{_code(snapshot.file)}`", ""]
    lines += [f"{snapshot.container}, {text(snapshot.byte)}", ""]
    for facts in select_devices(analysis, device, at):
        lines += _device(facts, at, top, texts, circumstances)
    notes = [*snapshot.notes, *warnings]
    if notes:
        lines += ["## Warnings", "", *(f"- {escape_markdown(note)}" for note in notes), ""]
    return "\n".join(lines)


def _device(
    analysis: DeviceAnalysis,
    at: int | None,
    top: int,
    texts: tuple[OomText, ...],
    circumstances: Circumstances | None,
) -> list[str]:
    facts = analysis.summary(top=top)
    lines = [f"## Device {facts.device}", "", f"{facts.headline}.", ""]
    for event in facts.ooms:
        lines += _verdict(judge(analysis, event, texts, top=top, circumstances=circumstances))
    lines += _figures(list_summary_facts(facts))
    lines += [f"### Memory by site at the {facts.top_at}", "", *_top(facts.top)]
    if at is not None and at < analysis.replay.events:
        state = analysis.state(at)
        lines += [
            f"### At event {at}",
            "",
            f"{text(state.live)} live in {count(state.allocations, 'allocation')},"
            f" {text(state.reserved)} reserved, {text(state.cached)} cached, largest free block"
            f" {text(state.largest_free_block)}.",
            "",
            *_top(analysis.top(at, top)),
        ]
    lines += [f"- {escape_markdown(remark)}" for remark in facts.remarks]
    lines += [""] if facts.remarks else []
    return [*lines, *_advice(OF_CACHED, facts.advice)]


def _verdict(verdict: Verdict) -> list[str]:
    state = verdict.state
    lines = [f"### OOM at event {verdict.event}: {verdict.cause}", ""]
    lines += [f"**{escape_markdown(verdict.explanation.line)}**", "", f"{verdict.headline}.", ""]
    lines += _account(verdict.explanation)
    lines += _figures(list_verdict_facts(verdict))
    lines += [f"- {escape_markdown(reason)}" for reason in (*verdict.reasons, *state.doubts)]
    lines += ["", "Memory by site:", "", *_top(verdict.top), *_advice(AGAINST_OOM, verdict.advice)]
    if verdict.stack:
        lines += ["Requested at:", "", "```", *_stack(verdict.stack), "```", ""]
    return lines


def _account(explanation: Explanation) -> list[str]:
    rows = [
        f"| {text(row.bytes)} | {share(row.share)} | {row.name} |"
        f" {escape_markdown(row.description)} |"
        for row in explanation.account
    ]
    return [
        format_used(explanation),
        "",
        "| bytes | share | cause | whose |",
        "|---:|---:|---|---|",
        *rows,
        "",
    ]


def _figures(facts: Sequence[Fact]) -> list[str]:
    rows = [
        f"| {fact.name} | {fact.formatted} |" for fact in select_displayed_facts(facts, detail=True)
    ]
    return ["| | |", "|---|---|", *rows, ""]


def _top(sites: tuple[Top, ...]) -> list[str]:
    if not sites:
        return ["Nothing.", ""]
    return [
        "| bytes | share | allocations | site |",
        "|---:|---:|---:|---|",
        *(
            f"| {text(site.bytes)} | {share(site.share)} | {site.count} | `{_code(site.label)}` |"
            for site in sites
        ),
        "",
    ]


def _advice(title: str, advice: tuple[Remedy, ...]) -> list[str]:
    return [*advice_markdown(advice, f"{title}:"), ""] if advice else []


def _stack(stack: tuple[Frame, ...]) -> list[str]:
    """Return the first frames with a Python line, with user frames marked."""
    python = [frame for frame in stack if classify_frame(frame) != "native"] or list(stack)
    lines = [
        f"{'>' if classify_frame(frame) == 'user' else ' '} {_fenced(format_frame(frame))}"
        for frame in python[:STACK_LIMIT]
    ]
    left = len(python) - STACK_LIMIT
    return [*lines, f"  {left} more"] if left > 0 else lines


def diff_markdown(differences: dict[int, Difference], a: str, b: str) -> str:
    """Return the differences of two files, device by device, as Markdown."""
    lines = [f"# Allocator snapshots compared: `{_code(a)}` and `{_code(b)}`", ""]
    for index, difference in differences.items():
        lines += [
            f"## Device {index}",
            "",
            f"Live {text(difference.live_a)} and {text(difference.live_b)}, reserved"
            f" {text(difference.reserved_a)} and {text(difference.reserved_b)}.",
            "",
        ]
        if not difference.rows:
            lines += ["No site differs.", ""]
            continue
        lines += [
            "| change | by | from | to | allocations | site |",
            "|---|---:|---:|---:|---|---|",
        ]
        lines += [
            f"| {row.change} | {text(row.bytes_b - row.bytes_a)} | {text(row.bytes_a)}"
            f" | {text(row.bytes_b)} | {row.count_a} to {row.count_b} | `{_code(row.label)}` |"
            for row in difference.rows[:DIFF_LIMIT]
        ]
        left = len(difference.rows) - DIFF_LIMIT
        lines += [f"{left} more.", ""] if left > 0 else [""]
    return "\n".join(lines)


def _code(value: str) -> str:
    """Escape text for use between back quotes, also in a table."""
    return _fenced(value).replace("`", "'").replace("|", "\\|")


def _fenced(value: str) -> str:
    return " ".join(value.split()).replace("```", "'''")
