"""A rehearsal as plain data, for ``rehearse --json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui.rehearsal.cards import MIB, Card
from tui.rehearsal.libraries import TargetLibraries, find_differences
from tui.rehearsal.read_uses import find_use
from tui.rehearsal.run import Rehearsed
from tui.rehearsal.search import Search
from tui.rehearsal.verdict import DeviceVerdict, RehearsalVerdict
from tui.rehearsal.views import Attempt, SearchWith, account_terms


def encode_rehearsal(
    rehearsed: Rehearsed,
    verdict: RehearsalVerdict,
    attempts: Sequence[Attempt] = (),
    target: TargetLibraries | None = None,
) -> dict[str, Any]:
    """Return one rehearsal; every missing figure has its reason in ``unavailable``."""
    unavailable: dict[str, str] = {}
    if verdict.steps is None:
        unavailable["steps"] = "no process has made an optimizer step"
    if not verdict.devices:
        unavailable["devices"] = verdict.reason
    if target is None:
        unavailable["libraries_not_of_target"] = "no --target-requirements was given"
    different = () if target is None else find_differences(verdict.libraries, target)
    return {
        "command": list(rehearsed.rehearsal.command),
        "card": encode_card(rehearsed.rehearsal.card),
        "gpus": rehearsed.rehearsal.gpus,
        "answer": verdict.answer,
        "reason": verdict.reason or None,
        "steps": verdict.steps,
        "stopped": verdict.stopped,
        "compiled": verdict.compiled,
        "margin": verdict.margin.share,
        "devices": [_encode_device(device) for device in verdict.devices],
        "reads": [
            {
                "file": read.filename,
                "line": read.line,
                "function": read.name,
                "count": read.count,
                "use": find_use(read.filename, read.line).value,
            }
            for read in verdict.reads
        ],
        "copies_to_host": verdict.copies,
        "libraries": {library.name: library.version for library in verdict.libraries},
        "libraries_not_of_target": None
        if target is None
        else [
            {"name": library.name, "here": library.here, "target": library.there}
            for library in different
        ],
        "host_peak": rehearsed.host_peak,
        "exit": {"code": rehearsed.run.code, "signal": rehearsed.run.signal},
        "folder": str(rehearsed.run.folder),
        "attempts": [
            {
                "change": attempt.label,
                "answer": attempt.verdict.answer,
                "peak": fullest.record.peak if (fullest := attempt.verdict.fullest) else None,
            }
            for attempt in attempts
        ],
        "problems": list(rehearsed.problems),
        "unavailable": unavailable,
    }


def encode_card(card: Card) -> dict[str, Any]:
    """Return a card with its assumptions."""
    return {
        "key": card.key,
        "name": card.nvml_name,
        "total": card.total,
        "capability": f"{card.capability // 10}.{card.capability % 10}",
        "sm_count": card.sm_count,
        "context_assumed": card.context.context_mib * MIB,
        "nccl_assumed": {
            "two_ranks": card.nccl.pair_mib * MIB,
            "more_ranks": card.nccl.group_mib * MIB,
            "each_peer": card.nccl.peer_mib * MIB,
            "source": card.nccl.source,
        },
        "sources": list(card.sources),
    }


def _encode_device(device: DeviceVerdict) -> dict[str, Any]:
    return {
        "index": device.index,
        "total": device.total,
        "peak": device.record.peak,
        "reserved_peak": device.record.allocated,
        "headroom": device.headroom,
        "refused": device.record.refused,
        "account": dict(account_terms(device)),
        "processes": [
            {
                "pid": peak.pid,
                "rank": peak.rank,
                "requested_peak": peak.requested,
                "reserved_then": peak.account.reserved,
                "step": peak.step,
                "line": peak.account.site.label,
                "after": None if peak.account.after is None else peak.account.after.label,
                "doubts": list(peak.account.doubts),
            }
            for peak in device.peaks
        ],
    }


def encode_search(
    label: str, search: Search, tried: int, others: Sequence[SearchWith]
) -> dict[str, Any]:
    """Return the result of a search, and of the searches with settings that save memory.

    Args:
        label: the varied option, such as ``--batch``.
        search: the finished search.
        tried: number of its rehearsals.
        others: the searches with other settings.
    """
    return {
        "name": label,
        "low": search.range.low,
        "high": search.range.high,
        **_encode_limit(search, tried),
        "peaks": [{"value": value, "peak": peak} for value, peak in search.peaks],
        "with": [
            {
                "setting": other.label,
                **_encode_limit(other.search, other.tried),
                "problem": other.problem or None,
            }
            for other in others
        ],
    }


def _encode_limit(search: Search, tried: int) -> dict[str, Any]:
    return {
        "largest": search.fits,
        "smallest_that_fails": search.fails,
        "rehearsals": tried,
    }
