"""Rehearsals that did not take place, for the tests of verdicts and their text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.rehearsal.cards import Card, find_card
from tui.rehearsal.device.record import DeviceRecord
from tui.rehearsal.run import ProcessPeak, Rehearsal, Rehearsed
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.results import PeakAccount, RoleBytes, Site
from tui.watch.runs.agent_events import DevicePeaks, RehearsedEvent
from tui.watch.runs.ooms import Oom
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun

GIB = 1 << 30
CARD = find_card("h100")
EVENT = RehearsedEvent(
    at=10.0,
    steps=3,
    stopped=True,
    devices=(DevicePeaks(0, 10 * GIB, 10 * GIB, 11 * GIB),),
    step_times=(1, 2, 3),
    reads=(),
    snapshot="rehearsed-box-7-1.pickle",
)
LOG = ProcessLog("box-7-1", 7, "box", None, "2.13.0", 1.0, steps=3, ended=True, rehearsed=EVENT)
RUN = StartedRun(Path("/runs/20261125-100000-7"), ("python", "train.py"), "/work", 1.0, code=0)
SITE = Site("train.py:9 main", "user", Frame("/work/train.py", 9, "main"))

NOT_KNOWN = "the process ended with no optimizer step and no OOM after it"


def oom(*, handled: bool | None = False) -> Oom:
    """Return an OOM that ended its process, or not; ``None`` if that is unknown."""
    return Oom(
        number=1,
        at=5.0,
        step=0,
        device=0,
        request=GIB,
        free=0,
        limit=CARD.total,
        allocated=70 * GIB,
        reserved=78 * GIB,
        thread="main",
        where="/work/train.py:9",
        handled=handled,
        why_not_known="" if handled is not None else NOT_KNOWN,
    )


def account(live: int, **more: Any) -> PeakAccount:
    """Return an account of a peak."""
    facts: dict[str, Any] = {
        "device": 0,
        "event": 9,
        "time_us": 2,
        "live": live,
        "rounding": 0,
        "reserved": live,
        "roles": (RoleBytes("parameters", live // 4), RoleBytes("activations", live - live // 4)),
        "site": SITE,
        "after": None,
        "reserved_peak": live + GIB,
        "doubts": (),
    }
    return PeakAccount(**{**facts, **more})


def rehearsed(
    peak: int = 12 * GIB, *, logs: tuple[ProcessLog, ...] = (LOG,), card: Card = CARD, **more: Any
) -> Rehearsed:
    """Return a rehearsal whose device had a peak, by default one that fits.

    Args:
        peak: bytes in use at the peak, with a context of 500 MiB; 0 if no GPU was used.
        logs: what the agents left.
        card: the card.
        more: other fields.
    """
    used = DeviceRecord(peak, peak - (500 << 20), 1, 0, 0, 0, 0)
    unused = DeviceRecord(0, 0, 0, 0, 0, 0, 0)
    facts: dict[str, Any] = {
        "run": RUN,
        "records": (used if peak else unused,),
        "peaks": (ProcessPeak(7, None, account(max(0, peak - 2 * GIB)), 3),) if peak else (),
    }
    return Rehearsed(Rehearsal(RUN.command, card), logs=logs, **{**facts, **more})


def failed(**run: Any) -> Rehearsed:
    """Return a rehearsal whose program ended otherwise than by code 0."""
    log = replace(LOG, rehearsed=None, kind="", text="")
    return rehearsed(run=replace(RUN, code=None, **run), logs=(log,))
