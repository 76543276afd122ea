"""Which runs belong to one session: what they share by chance is not drawn anew from run to run."""

from __future__ import annotations

from collections.abc import Sequence

from tui.results.store.records import StoredRow

GAP_S = 1800.0
"""A run that ends longer after the run before it begins a session."""


def sessions_of(
    mine: Sequence[StoredRow], others: Sequence[StoredRow], boxes: dict[str, str]
) -> tuple[tuple[StoredRow, ...], ...]:
    """Group the runs of one side of a comparison by session.

    A session is a stretch of runs on one box. A run begins a new one where it ended more than
    :data:`GAP_S` after the run before it, or where it is of another process than that run and the
    other side ran on the same device of the same box in between. So two sides that alternate have
    a session for each turn: what drifts meanwhile falls on both alike.

    Args:
        mine: the runs of this side, of one workload and setting.
        others: those of the other side.
        boxes: names of the boxes by the hash of the facts; a box without a name is one box.

    Returns:
        The sessions, the oldest first; in each, the oldest run first.
    """
    turns: dict[tuple[str, str], list[float]] = {}
    for row in others:
        turns.setdefault((boxes.get(row.environment, ""), row.device), []).append(row.at)
    found: list[list[StoredRow]] = []
    newest: dict[str, list[StoredRow]] = {}
    for row in sorted(mine, key=lambda one: one.at):
        box = boxes.get(row.environment, "")
        session = newest.get(box)
        if session is None or _is_apart(session[-1], row, turns.get((box, row.device), ())):
            session = newest[box] = []
            found.append(session)
        session.append(row)
    return tuple(tuple(session) for session in found)


def _is_apart(before: StoredRow, after: StoredRow, turns: Sequence[float]) -> bool:
    if after.at - before.at > GAP_S:
        return True
    return after.process != before.process and any(before.at < at < after.at for at in turns)
