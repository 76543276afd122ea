"""Results of earlier sessions: the newest of each workload, and how a run compares with them.

Only results of the same box and GPU count: the store may have results of other boxes too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tui.devices.state.machine import MachineState
from tui.results.store import store_path
from tui.results.store.compare import StoreComparison, compare, format_difference
from tui.results.store.database import Database
from tui.results.store.gained_parameters import complete_requested
from tui.results.store.records import (
    Facts,
    StoredResult,
    StoredRow,
    build_row,
    build_stored_result,
    find_gpu,
)
from tui.results.store.selection import Selection
from tui.runs.state.runs import Against, EarlierResult, RunState, is_trusted_with
from workloads.protocol.results import Setting

BUSY_S = 1.0
"""Seconds to wait for another program that writes; they can delay this program's end."""


class EarlierSessions:
    """The stored results that ended before this session began. Every query opens the store.

    Args:
        place: the store's file; ``None`` for this user's.
        before: Unix time at which this session began, by the clock of the machine of the runs.
        own: names of this session's runners. Clocks step, so the time alone does not tell which
            results are earlier.
        traceless: as in :class:`Database`.
    """

    def __init__(
        self,
        place: Path | None,
        before: float,
        own: Collection[str] = (),
        *,
        traceless: bool = False,
    ) -> None:
        self._place = place or store_path()
        self._before = before
        self._own = frozenset(own)
        self._traceless = traceless

    def read_newest(self, box: str) -> tuple[EarlierResult, ...]:
        """Return the newest results on a box for each workload, GPU and set of parameters.

        The newest successful run is among them, and the newest failed one.

        Args:
            box: name of the box.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._open() as database, database.read_transaction():
            environments: dict[str, list[str]] = {}
            facts = database.read_facts()
            for key, fact in facts.items():
                if fact.values.get("box") == box:
                    environments.setdefault(find_gpu(fact), []).append(key)
            stored = []
            for gpu, keys in environments.items():
                rows = database.find_newest(keys, self._before)
                rows += database.find_newest(keys, self._before, failed=True)
                requested = database.read_requested(rows)
                stored += [
                    _build_earlier(row, gpu, requested.get(row.number, {}), facts[row.environment])
                    for row in rows
                    # An invalid row of the store counts as failed.
                    if row.valid_s is not None or row.status == "failed"
                ]
        return tuple(stored)

    def compare(self, runs: Sequence[RunState], machine: MachineState) -> Against | None:
        """Compare runs of this session with earlier runs of the same setting.

        Args:
            runs: runs of one workload with one setting, the newest last; not empty.
            machine: the devices and the environment of the runs.

        Returns:
            The comparison; ``None`` without earlier runs.

        Raises:
            StoreError: the store cannot be read.
        """
        stored = (build_stored_result(run, machine, "this session") for run in runs)
        return self.compare_stored([run for run in stored if run is not None])

    def compare_stored(self, runs: Sequence[StoredResult]) -> Against | None:
        """Compare results of this session with earlier results of the same setting.

        The earlier results share one environment: that of the newest result with the same flags,
        else that of the newest result.

        Args:
            runs: runs of one workload, setting and environment, the newest last; not empty.

        Returns:
            The comparison; ``None`` without earlier runs.

        Raises:
            StoreError: the store cannot be read.
        """
        newest = runs[-1]
        rows = [build_row(run) for run in runs]
        with self._open() as database, database.read_transaction():
            facts = database.read_facts()
            facts[newest.facts.hash] = newest.facts
            known = database.read_rows(
                Selection(workload=newest.record.workload, before=self._before)
            )
        ids = {row.id for row in rows}
        alike = [
            row
            for row in known
            if row.process not in self._own
            and row.id not in ids
            and _is_alike(row, rows[-1], facts)
        ]
        if not alike:
            return None
        same = (row for row in alike if facts[row.environment].flags == newest.facts.flags)
        environment = next(same, alike[0]).environment
        earlier = [row for row in alike if row.environment == environment]
        return _summarize(compare(earlier, rows, facts, lambda: alike), earlier[0].at)

    def _open(self) -> Database:
        return Database(self._place, busy_s=BUSY_S, traceless=self._traceless)


def _build_earlier(
    row: StoredRow, gpu: str, requested: Mapping[str, Setting], facts: Facts
) -> EarlierResult:
    used = json.loads(row.measured)
    return EarlierResult(
        workload=row.workload,
        gpu=gpu,
        requested={**used, **complete_requested(row.workload, requested)},
        used=used,
        at=row.at,
        median_s=row.valid_s,
        ci95_s=None if row.valid_s is None else row.ci95_s,
        driver=facts.values.get("driver", ""),
        torch=facts.values.get("torch", ""),
        trusted=is_trusted_with(row.marks),
        failure="" if row.status == "ok" else row.outcome or "failed",
    )


def _is_alike(row: StoredRow, newer: StoredRow, facts: Mapping[str, Facts]) -> bool:
    newer_facts, older_facts = facts[newer.environment], facts[row.environment]
    return (
        bool(row.valid_s)
        and row.measured == newer.measured
        and row.device.partition(":")[0] == newer.device.partition(":")[0]
        and older_facts.values.get("box") == newer_facts.values.get("box")
        and find_gpu(older_facts) == find_gpu(newer_facts)
    )


def _summarize(comparison: StoreComparison, at: float) -> Against | None:
    """Return the figures of the only workload compared, or ``None`` if none was."""
    if not comparison.questions:
        return None
    question = comparison.questions[0]
    return Against(
        at=at,
        verdict=question.answer.verdict,
        ratio=question.answer.ratio.value,
        ci95=question.answer.ratio.ci95,
        runs=question.answer.ratio.runs,
        varies=question.spread.share if question.spread else None,
        differences=tuple(map(format_difference, question.differences)),
    )
