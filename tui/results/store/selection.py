"""Selections of results: typed text as conditions on records and facts, and as SQL."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.results.store.records import VERSIONS, Facts

_SPAN = re.compile(r"(\d+)\s*(min|[hdw])")
_SECONDS = {"min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SAME_NAMES = ("box", "gpu", "driver", "cuda", "cudnn", "torch", "python", "cpu", "kernel")
_FACTS = {**{name: name for name in _SAME_NAMES}, "uuid": "gpu uuid"}
"""Facts by their typed names."""
FORMS = (
    "an id, a tag, box=…, gpu=…, driver=…, torch=…, workload=…, device=…, before:DATE, since:DATE"
)


class SelectionError(ValueError):
    """A typed selection is invalid; the message is one line."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that all must hold; an empty condition always holds."""

    facts: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Beginnings of ids; one must match."""
    before: float | None = None
    """Unix time."""
    since: float | None = None
    workload: str = ""
    device: str = ""
    """A device; ``cuda`` means all devices of that kind."""
    processes: tuple[str, ...] = ()
    """Names of runners; one must match."""
    environments: tuple[str, ...] = ()
    """Hashes of facts; one must match."""
    words: tuple[str, ...] = ()
    """Words: each is in the workload's name, or is its device, status, tag or an id's beginning."""


EVERYTHING = Selection()


def intersect(selection: Selection, other: Selection) -> Selection:
    """Return the intersection of two selections.

    Raises:
        SelectionError: they name different workloads or devices.
    """
    for name in ("workload", "device"):
        value, other_value = getattr(selection, name), getattr(other, name)
        if value and other_value and value != other_value:
            raise SelectionError(f"{name} {value} and {name} {other_value}: give one of them")
    if selection.ids and other.ids:
        raise SelectionError("two ids select nothing together")
    earliest = [moment for moment in (selection.before, other.before) if moment is not None]
    latest = [moment for moment in (selection.since, other.since) if moment is not None]
    return Selection(
        facts=(*selection.facts, *other.facts),
        tags=(*selection.tags, *other.tags),
        ids=selection.ids or other.ids,
        before=min(earliest, default=None),
        since=max(latest, default=None),
        workload=selection.workload or other.workload,
        device=selection.device or other.device,
        processes=selection.processes or other.processes,
        environments=selection.environments or other.environments,
        words=(*selection.words, *other.words),
    )


def parse_selection(text: str, now: float | None = None) -> tuple[Selection, tuple[str, ...]]:
    """Parse a typed selection, with parts separated by commas: ``box=a,torch=2.13``.

    Args:
        text: as typed.
        now: Unix time, from which ages count back.

    Returns:
        The selection, and the words that are ids or tags, which the store must resolve.

    Raises:
        SelectionError: a part has an unknown form.
    """
    selection, words = EVERYTHING, []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        before, colon, date = part.partition(":")
        if equals and name in _FACTS and value:
            selection = intersect(selection, Selection(facts=((_FACTS[name], value),)))
        elif equals and name in ("workload", "device") and value:
            added = Selection(workload=value) if name == "workload" else Selection(device=value)
            selection = intersect(selection, added)
        elif equals and name == "tag" and value:
            selection = intersect(selection, Selection(tags=(value,)))
        elif colon and before in ("before", "since"):
            at = parse_time(date, now)
            added = Selection(before=at) if before == "before" else Selection(since=at)
            selection = intersect(selection, added)
        elif equals or colon:
            raise SelectionError(f"{part}: give {FORMS}")
        else:
            words.append(part)
    if selection == EVERYTHING and not words:
        raise SelectionError(f"nothing is named: give {FORMS}")
    return selection, tuple(words)


def parse_time(text: str, now: float | None = None) -> float:
    """Parse a date (``2026-11-20``, ``2026-11-20T14:30``) or an age (``7d``) as Unix time.

    Args:
        text: as typed; a date is in local time.
        now: Unix time.

    Raises:
        SelectionError: the text is neither.
    """
    if span := _SPAN.fullmatch(text.strip()):
        present = time.time() if now is None else now
        return present - int(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise SelectionError(
            f"{text}: give a date such as 2026-11-20 or an age such as 90d, 12h, 30min"
        ) from None


def _matches(name: str, pattern: str, known: str | None) -> bool:
    """Return whether the known value of a fact matches the typed one."""
    if known is None:
        return False
    if name in VERSIONS:
        if name == "kernel":
            known = known.rpartition(" ")[2]
        # Compare whole parts: 2.1 does not match 2.12.
        return re.match(rf"{re.escape(pattern)}(?![\w])", known) is not None
    if name in ("gpu", "cpu"):
        return pattern.lower() in known.lower()
    return pattern == known


_WORD = """(
    instr(lower(r.workload), ?) OR r.device = ? OR instr(r.device, ?) = 1 OR r.status = ?
    OR instr(r.id, ?) = 1 OR r.number IN (SELECT number FROM tags WHERE name = ?)
)"""
"""SQL condition of a typed word: a part of a workload's name, or another identifier."""


def build_where(selection: Selection, facts: Mapping[str, Facts]) -> tuple[str, list[object]]:
    """Return the ``WHERE`` condition on ``results r`` and its values.

    Args:
        selection: the selection; a selection of everything gives no condition.
        facts: all facts by hash, used if the selection has conditions on facts.
    """
    conditions = [
        *_build_fact_conditions(selection, facts),
        *_build_time_conditions(selection),
        *_build_name_conditions(selection),
    ]
    texts = [str(text) for text, *_ in conditions]
    values = [value for _, *these in conditions for value in these]
    return (f"WHERE {' AND '.join(texts)}" if texts else ""), values


Condition = tuple[object, ...]
"""SQL text, and its values."""


def _build_in(column: str, values: Sequence[object]) -> Condition:
    return f"{column} IN ({','.join('?' * len(values))})", *values


def _build_fact_conditions(selection: Selection, facts: Mapping[str, Facts]) -> list[Condition]:
    conditions = []
    if selection.facts:
        hashes = [
            key
            for key, known in facts.items()
            if all(_matches(*fact, known.values.get(fact[0])) for fact in selection.facts)
        ]
        conditions.append(_build_in("r.environment", hashes))
    if selection.environments:
        conditions.append(_build_in("r.environment", selection.environments))
    return conditions


def _build_time_conditions(selection: Selection) -> list[Condition]:
    conditions: list[Condition] = []
    if selection.before is not None:
        conditions.append(("r.at < ?", selection.before))
    if selection.since is not None:
        conditions.append(("r.at >= ?", selection.since))
    return conditions


def _build_name_conditions(selection: Selection) -> list[Condition]:
    conditions: list[Condition] = [
        ("r.number IN (SELECT number FROM tags WHERE name = ?)", tag) for tag in selection.tags
    ]
    if selection.ids:
        texts = ["r.id >= ? AND r.id < ?"] * len(selection.ids)
        ends = [end for run_id in selection.ids for end in (run_id, f"{run_id}g")]
        conditions.append((f"({' OR '.join(texts)})", *ends))
    if selection.workload:
        conditions.append(("r.workload = ?", selection.workload))
    if selection.device:
        conditions.append(
            ("(r.device = ? OR r.device LIKE ?)", selection.device, f"{selection.device}:%")
        )
    if selection.processes:
        conditions.append(_build_in("r.process", selection.processes))
    for word in selection.words:
        low = word.lower()
        conditions.append((_WORD, low, low, f"{low}:", low, low, word))
    return conditions
