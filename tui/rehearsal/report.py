"""A rehearsal as plain data, for ``rehearse --json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui.rehearsal.cards import CONTEXT_MIB, MIB, Card
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
        "margin": verdict.margin,
        "devices": [_encode_device(each) for each in verdict.devices],
        "reads": [
            {
                "file": each.filename,
                "line": each.line,
                "function": each.name,
                "count": each.count,
                "use": find_use(each.filename, each.line).value,
            }
            for each in verdict.reads
        ],
        "copies_to_host": verdict.copies,
        "libraries": {each.name: each.version for each in verdict.libraries},
        "libraries_not_of_target": None
        if target is None
        else [{"name": each.name, "here": each.here, "target": each.there} for each in different],
        "host_peak": rehearsed.host_peak,
        "exit": {"code": rehearsed.run.code, "signal": rehearsed.run.signal},
        "folder": str(rehearsed.run.folder),
        "attempts": [
            {"change": each.label, "answer": each.verdict.answer, "peak": _peak(each.verdict)}
            for each in attempts
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
        "context_assumed": CONTEXT_MIB * MIB,
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
                "pid": each.pid,
                "rank": each.rank,
                "requested_peak": each.requested,
                "reserved_then": each.account.reserved,
                "step": each.step,
                "line": each.account.site.label,
                "after": None if each.account.after is None else each.account.after.label,
                "doubts": list(each.account.doubts),
            }
            for each in device.peaks
        ],
    }


def _peak(verdict: RehearsalVerdict) -> int | None:
    return None if verdict.fullest is None else verdict.fullest.record.peak


def encode_search(
    label: str, search: Search, tried: int, others: Sequence[SearchWith]
) -> dict[str, Any]:
    """Return the result of a search, and of the searches with settings that save memory.

    Args:
        label: what was varied, such as ``--batch``.
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
                "setting": each.label,
                **_encode_limit(each.search, each.tried),
                "problem": each.problem or None,
            }
            for each in others
        ],
    }


def _encode_limit(search: Search, tried: int) -> dict[str, Any]:
    return {
        "largest": search.fits,
        "smallest_that_fails": search.fails,
        "rehearsals": tried,
    }
