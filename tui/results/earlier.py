"""What the store has of earlier sessions on this box: the newest of each, what a run is held to.

Only what was measured here and on the same GPU: another box's results may be in the store too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tui.results.compare import Compared, compare, difference
from tui.results.database import Database
from tui.results.environment import FLAG
from tui.results.records import Facts, Kept, Row, row_of
from tui.results.selection import Selection
from tui.state.earlier import Against, EarlierResult
from workloads.protocol.inventory import Setting
from workloads.protocol.results import Verdict

BUSY_S = 1.0
"""A look does not hold up the end of a program for longer."""


def read(place: Path, box: str, before: float, *, traceless: bool) -> tuple[EarlierResult, ...]:
    """The newest of each workload, GPU and parameters that was measured on a box.

    Args:
        place: the store's file.
        box: its name.
        before: Unix time; what ended later is not asked for.
        traceless: as of :class:`Database`.

    Raises:
        StoreError: it cannot be read.
    """
    with Database(place, busy_s=BUSY_S, traceless=traceless) as database, database.moment():
        environments: dict[str, list[str]] = {}
        facts = database.facts()
        for key, one in facts.items():
            if one.values.get("box") == box:
                environments.setdefault(gpu_of(one), []).append(key)
        found = []
        for gpu, keys in environments.items():
            rows = database.newest(keys, before)
            asked = database.asked(rows)
            found += [
                _earlier(row, gpu, asked.get(row.number, {}), facts[row.environment])
                for row in rows
            ]
    return tuple(found)


def gpu_of(facts: Facts) -> str:
    """The UUID of the GPU, of several the first; empty where none is known."""
    return facts.values.get("gpu uuid", "").partition(", ")[0]


def _earlier(row: Row, gpu: str, asked: Mapping[str, Setting], facts: Facts) -> EarlierResult:
    assert row.median_s is not None
    used = json.loads(row.parameters)
    return EarlierResult(
        workload=row.workload,
        gpu=gpu,
        asked={**used, **asked},
        used=used,
        at=row.at,
        median_s=row.median_s,
        ci95_s=row.ci95_s,
        driver=facts.values.get("driver", ""),
        torch=facts.values.get("torch", ""),
    )


def held_against(
    place: Path, runs: Sequence[Kept], before: float, *, traceless: bool
) -> Against | None:
    """Runs of this session beside the earlier ones that answer the same question.

    Those are of one environment: of the newest that had the same flags, else of the newest.

    Args:
        place: the store's file.
        runs: of one workload with one setting in one environment, the newest last; not empty.
        before: Unix time at which this session began.
        traceless: as of :class:`Database`.

    Returns:
        ``None`` where there are none.

    Raises:
        StoreError: it cannot be read.
    """
    newest = runs[-1]
    mine = [row_of(one) for one in runs]
    with Database(place, busy_s=BUSY_S, traceless=traceless) as database, database.moment():
        facts = {**database.facts(), newest.facts.hash: newest.facts}
        known = database.rows(Selection(workload=newest.record.workload, before=before))
    alike = [row for row in known if _is_alike(row, mine[-1], facts)]
    if not alike:
        return None
    flags = _flags(newest.facts)
    same = (row for row in alike if _flags(facts[row.environment]) == flags)
    environment = next(same, alike[0]).environment
    earlier = [row for row in alike if row.environment == environment]
    return _against(compare(earlier, mine, facts, lambda: alike), earlier[0].at)


def _is_alike(row: Row, mine: Row, facts: Mapping[str, Facts]) -> bool:
    here, there = facts[mine.environment], facts[row.environment]
    return (
        row.status == "ok"
        and bool(row.median_s)
        and row.parameters == mine.parameters
        and row.device.partition(":")[0] == mine.device.partition(":")[0]
        and there.values.get("box") == here.values.get("box")
        and gpu_of(there) == gpu_of(here)
    )


def _flags(facts: Facts) -> dict[str, str]:
    return {name: text for name, text in facts.values.items() if name.startswith(FLAG)}


def _against(found: Compared, at: float) -> Against | None:
    if not found.questions:
        return None
    question = found.questions[0]
    verdict: Verdict = question.answer.verdict
    return Against(
        at=at,
        verdict=verdict,
        ratio=question.answer.ratio.value,
        ci95=question.answer.ratio.ci95,
        runs=question.answer.ratio.runs,
        varies=question.spread.share if question.spread else None,
        differences=tuple(map(difference, question.differences)),
    )
