"""Comparison of two sets of results, workload by workload and session by session."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text.numbers import megahertz
from tui.results.store.records import Facts, StoredRow, name_fact, rank_fact
from tui.results.store.selection import SelectionError
from tui.results.store.statistics import (
    FEWEST_SESSIONS,
    LEVEL,
    Answer,
    Spread,
    apply_holm,
    compare_sessions,
    compute_spread,
    compute_typical_s,
)
from tui.runs.state.parameters import format_value
from workloads.measure.estimates import THRESHOLD
from workloads.protocol.results import Verdict

UNKNOWN = "not known"
IDLE = "idle"
"""The monitor's word for an idle GPU, as between two blocks."""
GAP_S = 1800.0
"""Seconds; a run that ends later than this after the previous run begins a new session."""
_VERDICT_ORDER: tuple[Verdict, ...] = ("slower", "faster", "unclear", "same")
"""The order of the workloads in a comparison: what differs comes first."""
Environments = Mapping[str, Facts]
_Groups = Sequence[tuple[StoredRow, ...]]


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """The runs of one workload on one side, oldest first."""

    rows: tuple[StoredRow, ...]
    sessions: tuple[tuple[float, ...], ...]
    """The medians of the runs in seconds, by session, oldest first."""
    typical_s: float
    """The side's displayed time in seconds, from which the ratio is computed."""

    @property
    def marked(self) -> int:
        """Number of runs with doubts."""
        return sum(bool(row.marks) for row in self.rows)

    @property
    def mark(self) -> str:
        """The doubt about the newest such run; throttling comes before other doubts."""
        return next((row.marks[0] for row in reversed(self.rows) if row.marks), "")

    @property
    def processes(self) -> int:
        """Number of runners that the runs came from."""
        return len({row.process for row in self.rows})


@dataclass(frozen=True, slots=True)
class DifferingFact:
    """A fact that differs between the sides; it is not necessarily the cause."""

    name: str
    a: tuple[str, ...]
    """Its values on side A, most frequent first."""
    b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One workload with one setting, on both sides."""

    workload: str
    devices: tuple[str, str]
    """Devices of A and B."""
    parameters: str
    a: ComparisonSide
    b: ComparisonSide
    answer: Answer
    differences: tuple[DifferingFact, ...]
    spread: Spread | None
    """Variation of this workload from run to run in one environment; computed only if a side has
    too few sessions."""


@dataclass(frozen=True, slots=True)
class UnpairedWorkload:
    """A workload on both sides whose runs differ in what was measured."""

    workload: str
    differences: tuple[DifferingFact, ...]
    """The parameters, and the device, whose values differ."""


@dataclass(frozen=True, slots=True)
class LeftOutResults:
    """Results of one kind that are not compared, since they have no valid time."""

    what: str
    """The plural: ``failed runs``, ``cancelled runs``, ``comparisons of a flag``."""
    number: tuple[int, int]
    """Number of these of A and of B."""


@dataclass(frozen=True, slots=True)
class StoreComparison:
    """The comparison of all workloads that A and B share."""

    questions: tuple[Question, ...]
    only: tuple[int, int]
    """Number of workloads only in A, and only in B."""
    unpaired: tuple[UnpairedWorkload, ...] = ()
    """Workloads among :attr:`only` of both sides, which measured different things."""
    left_out: tuple[LeftOutResults, ...] = ()
    """The results without a valid time by kind."""

    @property
    def tested(self) -> int:
        """Number of questions with enough sessions."""
        return sum(question.answer.ratio.p_value is not None for question in self.questions)

    @property
    def false_alone(self) -> float:
        """Most false alarms to expect without the correction."""
        return LEVEL * self.tested

    @property
    def short(self) -> tuple[Question, ...]:
        """Questions with fewer than :data:`FEWEST_SESSIONS` sessions on a side."""
        return tuple(
            question
            for question in self.questions
            if min(question.answer.ratio.sessions) < FEWEST_SESSIONS
        )

    @property
    def slower(self) -> tuple[Question, ...]:
        """Questions in which B is slower."""
        return tuple(question for question in self.questions if question.answer.verdict == "slower")


def compare(
    a: Sequence[StoredRow],
    b: Sequence[StoredRow],
    facts: Environments,
    history: Callable[[], Sequence[StoredRow]] = tuple,
) -> StoreComparison:
    """Compare two sets of results.

    Only successful runs are compared; throttled runs are included, with a mark.

    Args:
        a: the first set.
        b: the second.
        facts: their environments, by hash.
        history: returns further results of the same boxes; called if a side has too few
            sessions, to estimate the variation from run to run.

    Raises:
        SelectionError: a result is in both sets.
    """
    twice = {row.id for row in a} & {row.id for row in b}
    if twice:
        shared = f"{len(twice)} results are in both A and B, {min(twice)} for one"
        if len(twice) == 1:
            shared = f"{min(twice)} is in both A and B"
        raise SelectionError(f"{shared}: a result cannot be compared with itself")
    of_a, of_b = _filter_timed(a), _filter_timed(b)
    pairs, left = _pair(of_a, of_b, facts)
    answers = apply_holm(
        [compare_sessions(first.sessions, other.sessions) for first, other in pairs]
    )
    few = any(answer.ratio.p_value is None for answer in answers)
    known = (
        _compute_spreads({row.id: row for row in (*history(), *of_a, *of_b)}.values())
        if few
        else {}
    )
    questions = [
        Question(
            workload=first.rows[0].workload,
            devices=(first.rows[0].device, other.rows[0].device),
            parameters=first.rows[0].parameters,
            a=first,
            b=other,
            answer=answer,
            differences=(
                *find_differences(first, other, facts),
                *find_condition_differences(first, other),
            ),
            spread=known.get(question_of(first.rows[0])),
        )
        for (first, other), answer in zip(pairs, answers, strict=True)
    ]
    questions.sort(key=_rank)
    only = len(left[0]), len(left[1])
    unpaired = _find_unpaired(*left)
    return StoreComparison(tuple(questions), only, unpaired, _count_left_out(a, b))


def _count_left_out(a: Sequence[StoredRow], b: Sequence[StoredRow]) -> tuple[LeftOutResults, ...]:
    """Count the results without a valid time by kind."""
    of_a, of_b = (Counter(_name_kind(row) for row in rows if not row.valid_s) for rows in (a, b))
    return tuple(LeftOutResults(kind, (of_a[kind], of_b[kind])) for kind in sorted(of_a | of_b))


def _name_kind(row: StoredRow) -> str:
    """Return the kind of a result without a valid time, in the plural."""
    if row.kind == "comparison":
        return "comparisons of a flag"
    return "runs without a time" if row.status == "ok" else f"{row.status} runs"


def _rank(question: Question) -> tuple[int, float, str, tuple[str, str], str]:
    """Return the sort key of a question: differences first, the largest of each kind leading."""
    verdict, ratio = question.answer.verdict, question.answer.ratio.value
    differs = verdict in ("slower", "faster")
    size = abs(math.log(ratio)) if differs and ratio > 0 else 0.0
    return (
        _VERDICT_ORDER.index(verdict),
        -size,
        question.workload,
        question.devices,
        question.parameters,
    )


def _filter_timed(rows: Iterable[StoredRow]) -> list[StoredRow]:
    timed = [row for row in rows if row.valid_s]
    timed.sort(key=lambda row: row.at)
    return timed


def question_of(row: StoredRow) -> tuple[str, str, str]:
    """Return the question that a result answers: its workload, device, and measured parameters."""
    return row.workload, row.device, row.measured


def _pair(
    a: Sequence[StoredRow], b: Sequence[StoredRow], facts: Environments
) -> tuple[list[tuple[ComparisonSide, ComparisonSide]], tuple[_Groups, _Groups]]:
    """Pair the runs of A and B that answer one question; return the groups left on each side too.

    First pair groups that agree in workload, device, parameters and flags. Then pair the rest that
    agree in all but the flags, and then in all but the device's number, if each side has exactly
    one such group: a choice between two would be arbitrary.
    """
    used = {row.environment for row in (*a, *b)}
    flags = {key: facts[key].flags for key in used}
    boxes = {key: facts[key].values.get("box", "") for key in used}
    ways: tuple[Callable[[StoredRow], Hashable], ...] = (
        lambda row: (*question_of(row), flags[row.environment]),
        question_of,
        lambda row: (row.workload, row.device.partition(":")[0], row.measured),
    )
    left_a, left_b = _group(a, ways[0]), _group(b, ways[0])
    pairs = []
    for way in ways:
        by_a, by_b = _find_unique(left_a, way), _find_unique(left_b, way)
        for key in [key for key in by_a if key in by_b]:
            first, other = by_a[key], by_b[key]
            left_a.remove(first)
            left_b.remove(other)
            pairs.append((_build_side(first, other, boxes), _build_side(other, first, boxes)))
    return pairs, (left_a, left_b)


def _find_unpaired(a: _Groups, b: _Groups) -> tuple[UnpairedWorkload, ...]:
    """Return the workloads that were left on both sides, with the settings that differ."""
    unpaired = []
    for workload in dict.fromkeys(group[0].workload for group in a):
        of_a, of_b = (_collect_settings(groups, workload) for groups in (a, b))
        differences = tuple(
            DifferingFact(name, of_a.get(name, (UNKNOWN,)), of_b.get(name, (UNKNOWN,)))
            for name in dict.fromkeys([*of_a, *of_b])
            if {*of_a.get(name, ())} != {*of_b.get(name, ())}
        )
        if of_b and differences:
            unpaired.append(UnpairedWorkload(workload, differences))
    return tuple(unpaired)


def _collect_settings(groups: _Groups, workload: str) -> dict[str, tuple[str, ...]]:
    """Return the values of a workload's parameters and device in all its groups, by name."""
    values: dict[str, dict[str, None]] = {}
    for row in (group[0] for group in groups if group[0].workload == workload):
        for name, value in {**json.loads(row.measured), "device": row.device}.items():
            values.setdefault(name, {})[format_value(value)] = None
    return {name: tuple(texts) for name, texts in values.items()}


def _build_side(
    rows: tuple[StoredRow, ...], others: Sequence[StoredRow], boxes: dict[str, str]
) -> ComparisonSide:
    sessions = collect_session_times(rows, others, boxes)
    return ComparisonSide(rows, sessions, compute_typical_s(sessions))


def collect_session_times(
    rows: Sequence[StoredRow], others: Sequence[StoredRow], boxes: dict[str, str]
) -> tuple[tuple[float, ...], ...]:
    """Return the medians of runs in seconds, by session; see :func:`group_sessions`."""
    return tuple(
        tuple(row.median_s for row in session if row.median_s)
        for session in group_sessions(rows, others, boxes)
    )


def _group(
    rows: Sequence[StoredRow], key: Callable[[StoredRow], Hashable]
) -> list[tuple[StoredRow, ...]]:
    groups: dict[Hashable, list[StoredRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [tuple(group) for group in groups.values()]


def _find_unique(
    groups: Sequence[tuple[StoredRow, ...]], key: Callable[[StoredRow], Hashable]
) -> dict[Hashable, tuple[StoredRow, ...]]:
    """Return the groups whose key no other group shares, by that key."""
    counted = Counter(key(group[0]) for group in groups)
    return {key(group[0]): group for group in groups if counted[key(group[0])] == 1}


def _compute_spreads(rows: Iterable[StoredRow]) -> dict[tuple[str, str, str], Spread]:
    """Return the variation of runs in one environment, by workload, device and parameters."""
    groups: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row.valid_s:
            of_setting = groups.setdefault(question_of(row), {})
            of_setting.setdefault(row.environment, []).append(row.valid_s)
    spreads = {key: compute_spread(list(group.values())) for key, group in groups.items()}
    return {key: spread for key, spread in spreads.items() if spread is not None}


def find_differences(
    a: ComparisonSide, b: ComparisonSide, facts: Environments
) -> tuple[DifferingFact, ...]:
    """Return the facts that differ between two sides, most important first."""
    of_a, of_b = _collect_values(a, facts), _collect_values(b, facts)
    pairs = [
        DifferingFact(name, of_a.get(name, (UNKNOWN,)), of_b.get(name, (UNKNOWN,)))
        for name in sorted({*of_a, *of_b}, key=rank_fact)
    ]
    return tuple(pair for pair in pairs if {*pair.a} != {*pair.b})


def format_difference(fact: DifferingFact) -> str:
    """Format a difference: ``driver 570.1 → 580.2``."""
    sides = (", ".join(texts) for texts in (fact.a, fact.b))
    return f"{name_fact(fact.name)} {f' {glyphs.GLYPHS.arrow} '.join(sides)}"


def find_condition_differences(a: ComparisonSide, b: ComparisonSide) -> tuple[DifferingFact, ...]:
    """Return the sampled GPU conditions that differ between the two sides."""
    clocks = [[row.clock_mhz for row in side.rows if row.clock_mhz] for side in (a, b)]
    if not all(clocks):
        return ()
    differences = []
    of_a, of_b = map(statistics.median, clocks)
    if abs(math.log(of_a / of_b)) > math.log1p(THRESHOLD):
        differences.append(DifferingFact("SM clock", (megahertz(of_a),), (megahertz(of_b),)))
    limits = [
        sorted({word for row in side.rows for word in row.limits} - {IDLE}) for side in (a, b)
    ]
    if limits[0] != limits[1]:
        words_a, words_b = (tuple(words) or ("nothing",) for words in limits)
        differences.append(DifferingFact("clocks limited by", words_a, words_b))
    return tuple(differences)


def _collect_values(side: ComparisonSide, facts: Environments) -> dict[str, tuple[str, ...]]:
    """Return the values of each fact over the runs of a side, most frequent first."""
    counted = Counter(row.environment for row in side.rows)
    counts: dict[str, Counter[str]] = {}
    names = {name for key in counted for name in (*facts[key].values, *facts[key].unknown)}
    for key, count in counted.items():
        for name in names:
            text = facts[key].values.get(name, UNKNOWN)
            counts.setdefault(name, Counter())[text] += count
    return {name: tuple(text for text, _ in texts.most_common()) for name, texts in counts.items()}


# ---- sessions ----------------------------------------------------------------------------------


def group_sessions(
    rows: Sequence[StoredRow], others: Sequence[StoredRow], boxes: dict[str, str]
) -> tuple[tuple[StoredRow, ...], ...]:
    """Group the runs of one side of a comparison by session.

    A session is a series of runs on one box. A run begins a new session if it ended more than
    :data:`GAP_S` after the previous run, or if it comes from another process than that run and the
    other side ran on the same device of the same box in between. So two alternating sides have a
    session for each turn, and drift affects both sides alike.

    Args:
        rows: the runs of this side, with one workload and setting.
        others: the runs of the other side.
        boxes: names of the boxes by the hash of the facts; a box without a name is one box.

    Returns:
        The sessions, oldest first; in each, the oldest run first.
    """
    turns: dict[tuple[str, str], list[float]] = {}
    for row in others:
        turns.setdefault((boxes.get(row.environment, ""), row.device), []).append(row.at)
    groups: list[list[StoredRow]] = []
    newest: dict[str, list[StoredRow]] = {}
    for row in sorted(rows, key=lambda row: row.at):
        box = boxes.get(row.environment, "")
        session = newest.get(box)
        if session is None or _begins_session(session[-1], row, turns.get((box, row.device), ())):
            session = newest[box] = []
            groups.append(session)
        session.append(row)
    return tuple(tuple(session) for session in groups)


def _begins_session(before: StoredRow, after: StoredRow, turns: Sequence[float]) -> bool:
    if after.at - before.at > GAP_S:
        return True
    return after.process != before.process and any(before.at < at < after.at for at in turns)
