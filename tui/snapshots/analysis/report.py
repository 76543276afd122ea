"""A snapshot as one JSON object, the output of ``gpu-workbench snapshot --json``.

Missing values are ``null``, and ``unavailable`` maps their dotted paths to the reasons.
"""

from __future__ import annotations

from typing import Any

from tui.snapshots.analysis.analysis import TOP, Analysis, DeviceAnalysis
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.explanation import Explanation, Remedy
from tui.snapshots.model.facts import convert_facts, list_summary_facts, list_verdict_facts
from tui.snapshots.model.results import (
    Difference,
    Growth,
    OomText,
    State,
    Summary,
    Top,
    Verdict,
)
from tui.snapshots.model.snapshot import Frame, format_frame_path

Json = dict[str, Any]

STACK_LIMIT = 40
"""Maximum number of frames to print from an OOM's stack."""


def snapshot_report(
    analysis: Analysis,
    warnings: tuple[str, ...],
    *,
    device: int | None = None,
    at: int | None = None,
    top: int = TOP,
    texts: tuple[OomText, ...] = (),
    circumstances: Circumstances | None = None,
) -> Json:
    """Return the report of a file, without the schema's number.

    Args:
        analysis: analysis of the file.
        warnings: results of the checks.
        device: the only device to include; ``None`` for all.
        at: adds the state right after this event, on each device whose trace has it.
        top: number of sites to list.
        texts: messages of exceptions.
        circumstances: facts from a watch on the program.

    Raises:
        ValueError: the file has no such device, or no trace in it has such an event.
    """
    chosen = select_devices(analysis, device, at)
    devices = [_device(one, at, top, texts, circumstances) for one in chosen]
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


def select_devices(
    analysis: Analysis, device: int | None, at: int | None
) -> tuple[DeviceAnalysis, ...]:
    """Return the requested devices.

    Raises:
        ValueError: no device matches; the one-line message names the existing ones.
    """
    if device is not None and device not in analysis.devices:
        have = ", ".join(map(str, analysis.devices)) or "none"
        raise ValueError(f"{analysis.snapshot.file} has no device {device}; it holds {have}")
    chosen = [
        chosen_device
        for index, chosen_device in analysis.devices.items()
        if device in (None, index)
    ]
    if at is not None:
        longest = max((one.replay.events for one in chosen), default=0)
        if not 0 <= at < longest:
            have = f"events 0 to {longest - 1}" if longest else "no trace"
            raise ValueError(f"{analysis.snapshot.file} has no event {at}; it has {have}")
    return tuple(chosen)


def _device(
    analysis: DeviceAnalysis,
    at: int | None,
    top: int,
    texts: tuple[OomText, ...],
    circumstances: Circumstances | None,
) -> Json:
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
        "bytes": growth.bytes,
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


def _top(site: Top) -> Json:
    return {"bytes": site.bytes, "count": site.count, "frame": site.label, "kind": site.kind}


def _advice(advice: Remedy) -> Json:
    return {"what": advice.what, "why": advice.why}


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
