"""A selection as a condition of SQL. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.results.records import Facts
from tui.results.selection import Selection, selects

_WORD = """(
    instr(lower(r.workload), ?) OR r.device = ? OR instr(r.device, ?) = 1 OR r.status = ?
    OR instr(r.id, ?) = 1 OR r.number IN (SELECT number FROM tags WHERE name = ?)
)"""
"""A word that was typed: a part of a workload's name, or what else a result is known by."""


def where(wanted: Selection, facts: Mapping[str, Facts]) -> tuple[str, list[object]]:
    """The condition on ``results r``, from its ``WHERE`` on, and its values.

    Args:
        wanted: the selection; one of everything gives no condition.
        facts: all that there are, by hash; looked at where facts are wanted.
    """
    found = [*_of_facts(wanted, facts), *_of_time(wanted), *_of_names(wanted)]
    texts = [str(text) for text, *_ in found]
    values = [value for _, *these in found for value in these]
    return (f"WHERE {' AND '.join(texts)}" if texts else ""), values


Condition = tuple[object, ...]
"""A text, and the values in it."""


def _one_of(column: str, values: Sequence[object]) -> Condition:
    return f"{column} IN ({','.join('?' * len(values))})", *values


def _of_facts(wanted: Selection, facts: Mapping[str, Facts]) -> list[Condition]:
    found = []
    if wanted.facts:
        hashes = [key for key, one in facts.items() if selects(wanted, one)]
        found.append(_one_of("r.environment", hashes))
    if wanted.environments:
        found.append(_one_of("r.environment", wanted.environments))
    return found


def _of_time(wanted: Selection) -> list[Condition]:
    found: list[Condition] = []
    if wanted.before is not None:
        found.append(("r.at < ?", wanted.before))
    if wanted.since is not None:
        found.append(("r.at >= ?", wanted.since))
    return found


def _of_names(wanted: Selection) -> list[Condition]:
    found: list[Condition] = [
        ("r.number IN (SELECT number FROM tags WHERE name = ?)", tag) for tag in wanted.tags
    ]
    if wanted.ids:
        texts = ["r.id >= ? AND r.id < ?"] * len(wanted.ids)
        ends = [end for one in wanted.ids for end in (one, f"{one}g")]
        found.append((f"({' OR '.join(texts)})", *ends))
    if wanted.workload:
        found.append(("r.workload = ?", wanted.workload))
    if wanted.device:
        found.append(("(r.device = ? OR r.device LIKE ?)", wanted.device, f"{wanted.device}:%"))
    if wanted.processes:
        found.append(_one_of("r.process", wanted.processes))
    for word in wanted.words:
        low = word.lower()
        found.append((_WORD, low, low, f"{low}:", low, low, word))
    return found
