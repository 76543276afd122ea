"""Validity checks of results: finite numbers, times of this century, names of limited length.

An import rejects a file with any other value. A store may have such a row nevertheless; the program
shows its valid part.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

from tui.results.store.records import (
    FLAG,
    Facts,
    Record,
    StoredResult,
    StoredRow,
    compute_digest,
    compute_id,
    encode_canonical,
)
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import Comparison, RunResult, Timing
from workloads.protocol.wire import field_values

FIRST_S = 946_684_800.0
"""2000-01-01, Unix time; an earlier result comes from a wrong clock."""
AHEAD_S = 86_400.0
"""Seconds that another machine's clock may be ahead of this one's."""
LEAST_MEASURED, MOST_MEASURED = 1e-12, 1e12
"""Bounds of durations in seconds (1 ps to 30 000 years), of their ratios, and of clocks in MHz."""
LONGEST_NAME = 200
"""Most characters of the name of a workload, device, parameter, flag, fact or tag."""
LONGEST_TEXT = 20_000
"""Most characters of any other text."""
MOST_ITEMS = 1_000_000
"""Most values in one result."""
DEEPEST = 24
"""Most levels of nesting in one result."""
LARGEST = 1 << 63
"""Exclusive bound of integers; SQLite stores no larger ones."""
UNKNOWN_TIME = 0.0
"""Replaces an invalid time in a row."""
_SAME_WORDS = ("gpu", "driver", "cuda", "cudnn", "torch", "python")
"""Facts that redaction does not change, except for a machine's name in them."""


class ImpossibleError(ValueError):
    """A value that no measurement can give; the text gives the value and the reason."""


def is_time(at: object) -> bool:
    """Return whether a Unix time lies between 2000 and tomorrow."""
    return isinstance(at, (int, float)) and FIRST_S <= at <= time.time() + AHEAD_S


def parse_finite(text: bytes) -> Any:
    """Parse JSON whose numbers are finite.

    Raises:
        ImpossibleError: the text is no JSON, too deep, or has an infinite or too large number.
    """
    # Before parsing: a list of small numbers takes forty times the memory of its text.
    if count_separators(text) > MOST_ITEMS:
        raise ImpossibleError(f"it has more than {MOST_ITEMS} values")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ImpossibleError("it is nested too deeply") from None
    except ImpossibleError:
        raise
    except ValueError as error:
        raise ImpossibleError(str(error)) from error
    _check_values(value)
    return value


def count_separators(text: bytes) -> int:
    """Count separators and opening brackets; the number of values is at most one more."""
    return sum(map(text.count, (b",", b"[", b"{")))


def _refuse_constant(name: str) -> Any:
    raise ImpossibleError(f"{name} is no finite number")


def _check_values(decoded: Any) -> None:
    waiting, count = [(decoded, 0)], 0
    while waiting:
        value, level = waiting.pop()
        count += 1
        if count > MOST_ITEMS:
            raise ImpossibleError(f"it has more than {MOST_ITEMS} values")
        if level > DEEPEST:
            raise ImpossibleError(f"it has more than {DEEPEST} levels")
        _check_value(value)
        if isinstance(value, list):
            waiting += [(item, level + 1) for item in value]
        elif isinstance(value, dict):
            for name in value:
                _check_length("a name", name, LONGEST_NAME)
            waiting += [(item, level + 1) for item in value.values()]


def _check_value(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ImpossibleError("a number is too large")
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise ImpossibleError(f"a number has {value.bit_length()} bits")
    if isinstance(value, str):
        _check_length("a text", value, LONGEST_TEXT)


def _check_length(label: str, text: str, most: int) -> None:
    if len(text) > most:
        raise ImpossibleError(f"{label} has {len(text)} characters, of at most {most}")


def check_result(stored: StoredResult) -> None:
    """Check a result from another source.

    Raises:
        ImpossibleError: a value is impossible, or the id does not match the content.
    """
    record = stored.record
    measured = record.run if record.kind == "run" else record.comparison
    if measured is None:
        raise ImpossibleError(f"it is a {record.kind} without one")
    if record.run is not None and record.comparison is not None:
        raise ImpossibleError("it is a run and a comparison at once")
    _check_time("at", record.at)
    for name in ("workload", "device", "process", "sweep", "budget"):
        _check_length(name, getattr(record, name), LONGEST_NAME)
    for tag in stored.tags:
        _check_length("a tag", tag, LONGEST_NAME)
    if (measured.workload, measured.device) != (record.workload, record.device):
        raise ImpossibleError("workload or device differs from the measured one")
    if measured.status != record.status:
        raise ImpossibleError("its status differs from the measured one")
    if record.run is not None:
        _check_run(record.run)
    if record.comparison is not None:
        _check_comparison(record.comparison)
    expected = compute_id(measured, record.at)
    if record.id != expected:
        raise ImpossibleError(f"its id is {record.id[:40]!r}, and its content has {expected}")


def _check_time(name: str, at: float) -> None:
    if not is_time(at):
        raise ImpossibleError(f"{name} = {at!r} is no time between 2000 and tomorrow")


def _is_measurable(value: float) -> bool:
    """Return whether a duration in seconds, a ratio of durations or a clock is plausible."""
    return LEAST_MEASURED <= value <= MOST_MEASURED


def _check_measured(name: str, value: float | None) -> None:
    if value is not None and not _is_measurable(value):
        limits = f"between {LEAST_MEASURED:g} and {MOST_MEASURED:g}"
        raise ImpossibleError(f"{name} = {value!r} is not above zero, {limits}")


def _check_not_negative(name: str, value: float | None) -> None:
    if value is not None and value < 0:
        raise ImpossibleError(f"{name} = {value!r} is below zero")


def _check_run(run: RunResult) -> None:
    for name in ("started_at", "ended_at"):
        at = getattr(run, name)
        if at is not None:
            _check_time(name, at)
    if run.time is not None:
        _check_timing(run.time)
    for owner, part in (("rates", run.rates), ("memory", run.memory)):
        for name, value in field_values(part).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                _check_not_negative(f"{owner}.{name}", value)
    if run.limit is not None:
        if run.limit.value <= 0:
            raise ImpossibleError(f"limit.value = {run.limit.value!r} is not above zero")
        _check_not_negative("limit.fraction", run.limit.fraction)


def _check_timing(timed: Timing) -> None:
    for name in ("median_s", "q1_s", "q3_s", "min_s"):
        _check_measured(name, getattr(timed, name))
    for name in ("measured_from", "measured_to"):
        _check_time(name, getattr(timed, name))
    for seconds in (*timed.block_times_s, *(timed.ci95_s or ())):
        _check_measured("a time", seconds)
    if timed.ci95_s is not None and timed.ci95_s[0] > timed.ci95_s[1]:
        raise ImpossibleError("ci95_s has its ends the wrong way round")


def _check_comparison(compared: Comparison) -> None:
    _check_measured("ratio", compared.ratio)
    for ratio in (*compared.pair_ratios, *(compared.ci95 or ())):
        _check_measured("a ratio", ratio)
    for arm in compared.arms:
        _check_measured("arm.median_s", arm.median_s)
    for began, ended in compared.measured:
        _check_time("measured", began)
        _check_time("measured", ended)


def has_same_content(first: StoredResult, other: StoredResult) -> bool:
    """Return whether two results of one id agree in everything that redaction does not change."""
    facts, others = first.facts.values, other.facts.values
    known = [name for name in _SAME_WORDS if name in facts and name in others]
    is_same = all(facts[name] == others[name] for name in known)
    return is_same and compute_fingerprint(first.record) == compute_fingerprint(other.record)


def compute_fingerprint(record: Record) -> str:
    """Return a digest of the measured numbers in their order; texts may be redacted.

    Data sampled during a run, such as its conditions, is omitted: not every source has it.
    """
    numbers: list[object] = []
    waiting: list[Any] = [json.loads(encode_canonical(record.run or record.comparison))]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [value[name] for name in sorted(value)]
        elif isinstance(value, list):
            waiting += value
        elif not isinstance(value, str):
            numbers.append(value)
    return compute_digest(numbers)


# ---- rows of a store, which may be invalid -------------------------------------------------------


def decode_row(columns: tuple[Any, ...]) -> StoredRow:
    """Make a row from a store's columns with any content.

    Args:
        columns: number, id, kind, at, process, workload, device, parameters, status, median_s,
            low_s, high_s, environment, marks, said, clock_mhz and limits.

    Returns:
        The row, without invalid values: if there were any, it counts as failed, with the reason.
    """
    number, id_, kind, at, process, workload, device, parameters, status, *rest = columns
    median, low, high, environment, marks, outcome, clock, limits = rest
    wrong: list[str] = []
    if not is_time(at):
        wrong.append(f"its time is {_shorten(at)}")
        at = UNKNOWN_TIME
    median = _decode_seconds(median, "median", wrong)
    low = _decode_seconds(low, "interval's low end", wrong)
    high = _decode_seconds(high, "interval's high end", wrong)
    if status not in ("ok", "failed", "skipped", "cancelled"):
        wrong.append(f"its status is {_shorten(status)}")
    if kind not in ("run", "comparison"):
        wrong.append(f"its kind is {_shorten(kind)}")
    row = StoredRow(
        number=number,
        id=_decode_name(id_),
        kind="comparison" if kind == "comparison" else "run",
        at=float(at),
        process=_decode_name(process),
        workload=_decode_name(workload),
        device=_decode_name(device),
        parameters=_decode_parameters(parameters, wrong),
        status=status if status in ("skipped", "cancelled") else "failed" if wrong else status,
        median_s=median,
        ci95_s=None if low is None or high is None else (low, high),
        environment=_decode_name(environment),
        marks=_decode_texts(marks, "marks", wrong),
        outcome=_decode_name(outcome, LONGEST_TEXT),
        clock_mhz=clock if isinstance(clock, (int, float)) and _is_measurable(clock) else None,
        limits=_decode_texts(limits, "limits", wrong),
    )
    if not wrong:
        return row
    reason = f"n/a: this row of the store cannot be true: {'; '.join(wrong)}"
    values = {
        **field_values(row),
        "status": "failed",
        "outcome": reason,
        "marks": (reason, *row.marks),
    }
    return StoredRow(**values)


def _decode_seconds(value: Any, name: str, wrong: list[str]) -> float | None:
    if value is None:
        return None
    if isinstance(value, (int, float)) and _is_measurable(value):
        return float(value)
    wrong.append(f"its {name} is {_shorten(value)}")
    return None


def _shorten(value: Any) -> str:
    return repr(value)[:40]


def _decode_name(value: Any, most: int = LONGEST_NAME) -> str:
    text = value if isinstance(value, str) else _shorten(value)
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _decode_parameters(value: Any, wrong: list[str]) -> str:
    try:
        parameters = parse_finite(value.encode()) if isinstance(value, str) else None
        if isinstance(parameters, dict) and all(
            isinstance(item, (bool, int, float, str)) for item in parameters.values()
        ):
            return str(value)
    except ImpossibleError:
        pass
    wrong.append("its parameters cannot be read")
    return "{}"


def _decode_texts(value: Any, name: str, wrong: list[str]) -> tuple[str, ...]:
    if value in ("", None):
        return ()
    try:
        texts = parse_finite(value.encode()) if isinstance(value, str) else None
    except ImpossibleError:
        texts = None
    if isinstance(texts, list) and all(isinstance(word, str) for word in texts):
        return tuple(_decode_name(word, LONGEST_TEXT) for word in texts)
    wrong.append(f"its {name} cannot be read")
    return ()


NO_FACTS = Facts({}, {"box": "its environment in the store is unreadable"})
"""Facts of a result whose environment is damaged or missing."""


def decode_facts(facts: Any, unknown: Any) -> Facts:
    """Make facts from a store's columns with any content."""
    try:
        values, why = (parse_finite(str(column).encode()) for column in (facts, unknown))
    except ImpossibleError:
        return NO_FACTS
    if not all(
        isinstance(decoded, dict) and all(isinstance(text, str) for text in decoded.values())
        for decoded in (values, why)
    ):
        return NO_FACTS
    return Facts(_name_flags(values), why)


def _name_flags(values: dict[str, str]) -> dict[str, str]:
    """Return facts with the present names of flags, including flags added later.

    Version 0.2 named a flag after ``allow_tf32``, and left the precision of products, and that of
    oneDNN, at torch's default.
    """
    if f"{FLAG}mkldnn.enabled" not in values and f"{FLAG}{_OLDER}" not in values:
        return values
    flags = {name: text for name, text in values.items() if name != f"{FLAG}{_OLDER}"}
    if f"{FLAG}{_OLDER}" in values:
        convolutions = "cudnn.conv.fp32_precision"
        allowed = values[f"{FLAG}{_OLDER}"] == "on"
        flags[f"{FLAG}{convolutions}"] = format_setting(convolutions, allowed)
    for flag in _LATER:
        flags.setdefault(f"{FLAG}{flag}", format_setting(flag, False))
    return flags


_OLDER = "cudnn.allow_tf32"
_LATER = (
    "cuda.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "mkldnn.matmul.fp32_precision",
)
"""Flags that version 0.2 did not have; they were off."""
