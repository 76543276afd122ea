"""A snapshot as one JSON object, and as Markdown that is ready to paste into an issue.

In JSON, the output of ``gpu-workbench snapshot --json``, missing values are ``null``, and
``unavailable`` maps their dotted paths to the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui.core.text.glyphs import escape_markdown
from tui.core.text.numbers import count, share
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.evidence import Circumstances, Growth
from tui.snapshots.explain.explain import format_request_place
from tui.snapshots.explain.explanation import Explanation, Remedy
from tui.snapshots.explain.frames import Frame, classify_frame, format_frame, format_frame_path
from tui.snapshots.explain.oom_text import OomText
from tui.snapshots.model.calls import ReportArguments
from tui.snapshots.model.facts import (
    Fact,
    advice_markdown,
    convert_facts,
    format_used,
    list_summary_facts,
    list_verdict_facts,
    select_displayed_facts,
)
from tui.snapshots.model.results import (
    AGAINST_OOM,
    NO_STACK_OF_EVENT,
    OF_CACHED,
    Difference,
    SiteRow,
    State,
    Summary,
    Verdict,
    lacks_sites,
)

Json = dict[str, Any]

STACK_LIMIT = 40
"""Maximum number of frames to print from an OOM's stack."""


def snapshot_report(
    analysis: Analysis,
    warnings: tuple[str, ...],
    arguments: ReportArguments,
    texts: tuple[OomText, ...] = (),
    circumstances: Circumstances | None = None,
) -> Json:
    """Return the report of a file, without the schema's number.

    Args:
        analysis: analysis of the file.
        warnings: results of the checks.
        arguments: the devices and sites to include, and an event whose state each device adds if
            its trace has it.
        texts: messages of exceptions.
        circumstances: facts from a watch on the program.

    Raises:
        ValueError: the file has no such device, or no trace in it has such an event.
    """
    devices = [
        _device(device, arguments, texts, circumstances)
        for device in select_devices(analysis, arguments)
    ]
    unavailable = {
        f"devices.{place}.{path}": why
        for place, device in enumerate(devices)
        for path, why in device.pop("unavailable").items()
    }
    return {
        "file": analysis.snapshot.file,
        "container": analysis.snapshot.container,
        "devices": devices,
        "warnings": [*analysis.snapshot.notes, *warnings],
        "unavailable": unavailable,
    }


def select_devices(analysis: Analysis, arguments: ReportArguments) -> tuple[DeviceAnalysis, ...]:
    """Return the requested devices.

    Raises:
        ValueError: no device matches; the one-line message names the existing ones.
    """
    index, event = arguments.device, arguments.event
    if index is not None and index not in analysis.devices:
        have = ", ".join(map(str, analysis.devices)) or "none"
        raise ValueError(f"{analysis.snapshot.file} has no device {index}; it holds {have}")
    devices = tuple(analysis.devices.values()) if index is None else (analysis.devices[index],)
    if event is not None:
        longest = max((device.replay.events for device in devices), default=0)
        if not 0 <= event < longest:
            have = f"events 0 to {longest - 1}" if longest else "no trace"
            raise ValueError(f"{analysis.snapshot.file} has no event {event}; it has {have}")
    return devices


def _device(
    analysis: DeviceAnalysis,
    arguments: ReportArguments,
    texts: tuple[OomText, ...],
    circumstances: Circumstances | None,
) -> Json:
    at, top = arguments.event, arguments.top
    facts = analysis.summary(top=top)
    verdicts = [
        judge(analysis, event, texts, top=top, circumstances=circumstances) for event in facts.ooms
    ]
    unavailable = dict(facts.unavailable)
    encoded = _summary(facts)
    encoded["ooms"] = []
    for place, verdict in enumerate(verdicts):
        encoded["ooms"].append(_verdict(verdict))
        for path, why in (verdict.unavailable | _absent(verdict)).items():
            unavailable[f"ooms.{place}.{path}"] = why
    encoded["top"] = [_top(site) for site in facts.top]
    if at is not None:
        if at < analysis.replay.events:
            encoded["at"] = _state(analysis.state(at))
            encoded["at"]["top"] = [_top(site) for site in analysis.top(at, top)]
        else:
            encoded["at"] = None
            unavailable["at"] = f"the trace of this device ends at event {facts.events - 1}"
    return {**encoded, "unavailable": unavailable}


def _summary(facts: Summary) -> Json:
    return {
        "index": facts.device,
        **convert_facts(list_summary_facts(facts)),
        "live_peak_event": facts.live_peak_event,
        "live_peak_time_us": facts.live_peak_time_us,
        "reserved_peak_event": facts.reserved_peak_event,
        "headline": facts.headline,
        "remarks": list(facts.remarks),
        "advice": [_advice(advice) for advice in facts.advice],
        "top_at": facts.top_at,
    }


def _verdict(verdict: Verdict) -> Json:
    return {
        "event": verdict.event,
        "time_us": verdict.time_us,
        **convert_facts(list_verdict_facts(verdict)),
        "cause": verdict.cause,
        "headline": verdict.headline,
        "explanation": explanation_report(verdict.explanation),
        "reasons": list(verdict.reasons),
        "doubts": list(verdict.state.doubts),
        "advice": [_advice(advice) for advice in verdict.advice],
        "top": [_top(site) for site in verdict.top],
        "growth": None if verdict.growth is None else _growth(verdict.growth),
        "asked_at": verdict.site or None,
        "stack": _frames(verdict.stack),
    }


def explanation_report(explanation: Explanation) -> Json:
    """Return the explanation of one OOM as plain data."""
    where = explanation.where
    return {
        "line": explanation.line,
        "conclusion": explanation.conclusion,
        "cause": explanation.cause,
        "where": None
        if where is None
        else {"file": where.filename, "line": where.line, "function": where.name},
        "backward": explanation.backward,
        "step": explanation.step,
        "used": explanation.used,
        "device_bytes": explanation.device_bytes,
        "device": explanation.device_words,
        "refusal": explanation.refusal or None,
        "account": [
            {"name": row.name, "bytes": row.bytes, "share": row.share, "words": row.description}
            for row in explanation.account
        ],
        "advice": [_advice(remedy) for remedy in explanation.advice],
    }


def _absent(verdict: Verdict) -> dict[str, str]:
    """Return the reasons for missing values that only the report contains."""
    reasons = {f"explanation.{name}": why for name, why in verdict.explanation.unavailable.items()}
    if not verdict.site:
        reasons["asked_at"] = "the event has no recorded Python frame"
    if verdict.growth is None:
        reasons["growth"] = "no site kept allocating at a steady pace without freeing"
    elif verdict.growth.seconds is None:
        reasons["growth.seconds"] = "the file has no times (torch before 2.2)"
    return reasons


def _growth(growth: Growth) -> Json:
    return {
        "frame": growth.label,
        "kind": growth.kind,
        "bytes": growth.live,
        "count": growth.count,
        "freed": growth.freed,
        "since_event": growth.first,
        "bytes_per_event": growth.per_event,
        "seconds": growth.seconds,
    }


def _state(state: State) -> Json:
    entry = state.entry
    return {
        "event": state.event,
        "action": None if entry is None else entry.action,
        "address": None if entry is None else entry.address,
        "size": None if entry is None else entry.size,
        "time_us": state.time_us,
        "live": state.live,
        "pending": state.pending,
        "rounding": state.rounding,
        "reserved": state.reserved,
        "cached": state.cached,
        "allocations": state.allocations,
        "largest_free_block": state.largest_free_block,
        "doubts": list(state.doubts),
        "stack": _frames(() if entry is None else entry.stack),
    }


def _frames(stack: tuple[Frame, ...]) -> list[str]:
    return [format_frame_path(frame) for frame in stack[:STACK_LIMIT]]


def _top(site: SiteRow) -> Json:
    return {"bytes": site.bytes, "count": site.count, "frame": site.label, "kind": site.kind}


def _advice(advice: Remedy) -> Json:
    return {"what": advice.what, "why": advice.why, "helps": not advice.futile}


def diff_report(differences: dict[int, Difference], a: str, b: str) -> Json:
    """Return the comparison of two files, without the schema's number."""
    return {
        "a": a,
        "b": b,
        "devices": [
            {
                "index": index,
                "live": [difference.live_a, difference.live_b],
                "reserved": [difference.reserved_a, difference.reserved_b],
                "sites": [
                    {
                        "change": row.change,
                        "frame": row.label,
                        "bytes": [row.bytes_a, row.bytes_b],
                        "count": [row.count_a, row.count_b],
                    }
                    for row in difference.rows
                ],
            }
            for index, difference in differences.items()
        ],
    }


# ---- Markdown ----

SHOWN_FRAMES = 12
DIFF_LIMIT = 50


def snapshot_markdown(
    analysis: Analysis,
    warnings: tuple[str, ...],
    arguments: ReportArguments,
    texts: tuple[OomText, ...] = (),
    circumstances: Circumstances | None = None,
) -> str:
    """Return the report of a file; arguments and errors as for :func:`snapshot_report`."""
    snapshot = analysis.snapshot
    lines = [f"# Allocator snapshot `{_code(snapshot.file)}`", ""]
    lines += [f"{snapshot.container}, {text(snapshot.byte)}", ""]
    for device in select_devices(analysis, arguments):
        lines += _device_lines(device, arguments, texts, circumstances)
    notes = [*snapshot.notes, *warnings]
    if notes:
        lines += ["## Warnings", "", *(f"- {escape_markdown(note)}" for note in notes), ""]
    return "\n".join(lines)


def _device_lines(
    analysis: DeviceAnalysis,
    arguments: ReportArguments,
    texts: tuple[OomText, ...],
    circumstances: Circumstances | None,
) -> list[str]:
    at, top = arguments.event, arguments.top
    facts = analysis.summary(top=top)
    lines = [f"## Device {facts.device}", "", f"{facts.headline}.", ""]
    for event in facts.ooms:
        lines += _verdict_lines(judge(analysis, event, texts, top=top, circumstances=circumstances))
    lines += _figures_lines(list_summary_facts(facts))
    if not lacks_sites(facts.top):
        lines += [f"### Memory by site at the {facts.top_at}", "", *_top_lines(facts.top)]
    if at is not None and at < analysis.replay.events:
        state = analysis.state(at)
        lines += [
            f"### At event {at}",
            "",
            f"{text(state.live)} live in {count(state.allocations, 'allocation')},"
            f" {text(state.reserved)} reserved, {text(state.cached)} cached, largest free block"
            f" {text(state.largest_free_block)}.",
            "",
            *_top_lines(analysis.top(at, top)),
        ]
    lines += [f"- {escape_markdown(remark)}" for remark in facts.remarks]
    lines += [""] if facts.remarks else []
    return [*lines, *_advice_lines(OF_CACHED, facts.advice)]


def _verdict_lines(verdict: Verdict) -> list[str]:
    state = verdict.state
    lines = [f"### OOM at event {verdict.event}", ""]
    lines += [f"**{escape_markdown(verdict.explanation.line)}**", "", f"{verdict.headline}.", ""]
    lines += _account_lines(verdict.explanation)
    lines += _figures_lines(list_verdict_facts(verdict))
    lines += [f"- {escape_markdown(reason)}" for reason in (*verdict.reasons, *state.doubts)]
    lines.append("")
    if not lacks_sites(verdict.top):
        lines += ["Memory by site:", "", *_top_lines(verdict.top)]
    lines += _advice_lines(AGAINST_OOM, verdict.advice)
    if verdict.stack:
        lines += ["Requested at:", "", "```", *_stack_lines(verdict.stack), "```", ""]
    elif verdict.explanation.where is not None:
        place = format_request_place(
            verdict.explanation.where, backward=verdict.explanation.backward
        )
        lines += [f"Requested at: `{_code(place)}` ({NO_STACK_OF_EVENT})", ""]
    return lines


def _account_lines(explanation: Explanation) -> list[str]:
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


def _figures_lines(facts: Sequence[Fact]) -> list[str]:
    rows = [
        f"| {fact.name} | {fact.formatted} |" for fact in select_displayed_facts(facts, detail=True)
    ]
    return ["| | |", "|---|---|", *rows, ""]


def _top_lines(sites: tuple[SiteRow, ...]) -> list[str]:
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


def _advice_lines(title: str, advice: tuple[Remedy, ...]) -> list[str]:
    return [*advice_markdown(advice, f"{title}:"), ""] if advice else []


def _stack_lines(stack: tuple[Frame, ...]) -> list[str]:
    """Return the first frames with a Python line, with user frames marked."""
    python = [frame for frame in stack if classify_frame(frame) != "native"] or list(stack)
    lines = [
        f"{'>' if classify_frame(frame) == 'user' else ' '} {_fenced(format_frame(frame))}"
        for frame in python[:SHOWN_FRAMES]
    ]
    left = len(python) - SHOWN_FRAMES
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
