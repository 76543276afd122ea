"""One OOM for commands: its lines, its account, and its fields in ``--json``."""

from __future__ import annotations

from typing import Any

from tui.allocators.findings import at_step
from tui.kit.lines import plain
from tui.snapshots.analysis.report import explanation_report
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.views.overview import account_lines, advice_lines
from tui.watch.runs.ooms import BY_DRIVER, Oom, describe_live_memory, describe_request
from tui.watch.runs.process_logs import ProcessLog

NOT_NEWEST = "only the newest OOM of each process is explained; gpu-workbench snapshot reads others"
_OOM = (
    *("at", "step", "device", "request", "free", "handled", "text", "text_source"),
    *("allocated", "requested", "reserved"),
)
_KEYS = {"request": "asked"}
"""JSON keys that differ from their field's name."""
_WHY_UNKNOWN = {
    "request": BY_DRIVER,
    "free": BY_DRIVER,
    "requested": "its torch does not count it",
}
MOST_ADVICE = 3
"""Largest number of remedies that a report prints for one OOM."""


def explanation_lines(explanation: Explanation, cells: int) -> list[str]:
    """Return the account of the used memory and the first remedies."""
    advice = explanation.advice[:MOST_ADVICE]
    rows = [*account_lines(explanation, cells), (), *advice_lines(advice, cells)]
    return [plain(row).rstrip() for row in rows]


def oom_lines(log: ProcessLog, oom: Oom) -> list[str]:
    """Return one OOM's numbers from the observer, and the exception's text with its source."""
    rank = "" if log.rank is None else f", rank {log.rank}"
    outcomes = {True: "the program continued", False: "it ended the process"}
    outcome = oom.why_not_known if oom.handled is None else outcomes[oom.handled]
    where = f" at {oom.where}" if oom.where else ""
    lines = [
        f"OOM {oom.number} of {log.oom_count} in process {log.pid}{rank}, {at_step(oom.step)}: "
        f"{describe_request(oom)}{where}, {describe_live_memory(oom)}; {outcome}",
        oom.text,
        f"  (text: {oom.text_source})",
    ]
    if oom.snapshot is not None:
        lines.append(f"snapshot: {oom.snapshot}")
    else:
        lines.append(f"no snapshot: {oom.why_no_snapshot}")
    return lines


def encode_oom(oom: Oom, explanation: Explanation | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of an OOM, and the reasons for absent ones.

    Args:
        oom: the OOM.
        explanation: its explanation; ``None`` if it is not the newest of its process.
    """
    absent = {
        _KEYS.get(name, name): why
        for name, why in _WHY_UNKNOWN.items()
        if getattr(oom, name) is None
    }
    if oom.handled is None:
        absent["handled"] = oom.why_not_known
    if oom.snapshot is None:
        absent["snapshot"] = oom.why_no_snapshot
    if explanation is None:
        absent["explanation"] = NOT_NEWEST
    else:
        absent |= {f"explanation.{name}": why for name, why in explanation.unavailable.items()}
    fields = {
        **{_KEYS.get(name, name): getattr(oom, name) for name in _OOM},
        "snapshot": None if oom.snapshot is None else str(oom.snapshot),
        "explanation": None if explanation is None else explanation_report(explanation),
    }
    return fields, absent
