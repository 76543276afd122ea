"""Stored results as the commands print them; the results tab shares the text. Pure."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tui.core.text import glyphs, ratios
from tui.core.text import numbers as text
from tui.core.text.glyphs import escape_markdown
from tui.core.text.ratios import format_effect, format_interval, format_ratio
from tui.results.store.compare import (
    GAP_S,
    UNKNOWN,
    ComparisonSide,
    DifferingFact,
    Environments,
    Question,
    StoreComparison,
    UnpairedWorkload,
    format_difference,
)
from tui.results.store.records import (
    FLAG,
    VARIABLE,
    Facts,
    StoredResult,
    StoredRow,
    name_fact,
)
from tui.results.store.statistics import FEWEST, FEWEST_SESSIONS, Spread, compute_spread
from tui.results.views.row_texts import (
    count_problems,
    format_date,
    format_name,
    format_results,
    format_short_time,
    name_rows,
)
from tui.runs.state.parameters import format_short, format_value
from tui.runs.state.result_format import format_end
from workloads.protocol import wire
from workloads.protocol.results import DataColumn, Table

SHORT_ID = 8
"""Displayed digits of an id; any unique beginning identifies a result."""
_SHOWN = ("box", "gpu", "driver", "torch")
"""Facts that get a column if the listed results differ in them."""
_OF_A_PYTHON = frozenset({"torch", "python", "cuda", "cudnn"})
"""Facts that can differ between two Pythons on the same box at the same time."""
_MOST_UNPAIRED = 4
"""Most workloads to list that both sides ran with different settings."""
_MOST_VALUES = 6
"""Most values of a parameter to list."""
_FOLLOWS = frozenset({"SM clock", "clocks limited by", "threads", "interop threads", "malloc"})
"""Facts that follow from other facts, and that no command sets."""


# ---- a list ------------------------------------------------------------------------------------


def build_list_table(
    rows: Sequence[StoredRow],
    facts: Environments,
    tags: Mapping[int, Sequence[str]],
    total: int | None = None,
) -> Table:
    """Return a table with a line per result; the title has the facts that all share.

    A row has only the parameters in which the rows of its workload differ.

    Args:
        rows: the shown rows.
        facts: facts by hash.
        tags: tags by the rows' numbers.
        total: number of all results, if more than are shown.
    """
    values = {
        name: [facts[row.environment].values.get(name, "") for row in rows] for name in _SHOWN
    }
    # A result of a CPU has no GPU and no driver, which is no difference.
    known = {name: dict.fromkeys(filter(None, values[name])) for name in _SHOWN}
    differ = [name for name in _SHOWN if len(known[name]) > 1]
    shared = [
        f"{name_fact(name)} {next(iter(known[name]))}" for name in _SHOWN if len(known[name]) == 1
    ]
    columns: dict[str, Sequence[str]] = {
        "id": [row.id[:SHORT_ID] for row in rows],
        "when": [format_short_time(row.at) for row in rows],
        "workload": name_rows(rows),
        "device": [row.device for row in rows],
        "result": format_results(rows),
        **{name_fact(name): values[name] for name in differ},
    }
    if tags:
        columns["tags"] = [", ".join(tags.get(row.number, ())) for row in rows]
    number = text.count(len(rows), "result")
    if total is not None and total > len(rows):
        number = f"the newest {len(rows)} of {text.count(total, 'result')}"
    doubts = count_problems(rows, f" ({glyphs.GLYPHS.warning})")
    return Table(
        "results",
        ", ".join((number, *doubts, *shared)),
        tuple(map(DataColumn, columns)),
        tuple(zip(*columns.values(), strict=True)),
    )


def encode_rows(rows: Sequence[StoredRow]) -> list[dict[str, Any]]:
    """Return results as plain data, with the reasons for their missing values."""
    return [_encode_row(row) for row in rows]


def _encode_row(row: StoredRow) -> dict[str, Any]:
    plain: dict[str, Any] = wire.to_plain(row)
    plain["parameters"] = json.loads(row.parameters)
    shown = f"gpu-workbench results show {row.id[:SHORT_ID]} --json gives the reason"
    no_time = "a comparison has a ratio and a verdict"
    if row.kind == "run":
        no_time = format_end(row.status, row.outcome or None)
    reasons = {
        "median_s": no_time,
        "ci95_s": no_time if row.median_s is None else shown,
        "clock_mhz": "no clock of a GPU was sampled",
    }
    plain["unavailable"] = {name: why for name, why in reasons.items() if plain[name] is None}
    return plain


# ---- two sets ----------------------------------------------------------------------------------


def build_comparison_table(comparison: StoreComparison) -> Table:
    """Return a table with both times, the verdict, the ratio and its interval per workload.

    The ratio is the time of A over the time of B in every line: above 1, B is faster.
    Without a workload on both sides, the title alone says so.
    """
    if not comparison.questions:
        return Table("compare", _explain_none_common(comparison), (), ())
    devices = {format_devices(question) for question in comparison.questions}
    device = devices.pop() if len(devices) == 1 else ""
    differ = has_different_runs(comparison)
    runs = format_runs(comparison)
    both = f"{text.count(len(comparison.questions), 'workload')} on both sides"
    sides = (*(() if device else ("device",)), "A", "B")
    names = ("workload", *sides, "B is", "ratio A/B", "95% interval")
    return Table(
        "compare",
        ", ".join(filter(None, (both, device, runs))),
        tuple(map(DataColumn, names)),
        tuple(
            _build_question_cells(question, with_device=not device, with_runs=differ)
            for question in comparison.questions
        ),
    )


def _explain_none_common(comparison: StoreComparison) -> str:
    """Return why A and B have no workload to compare."""
    without = [letter for letter, many in zip("AB", comparison.only, strict=True) if not many]
    if len(without) == 2:
        return "neither A nor B has a successful run"
    if without:
        return f"{without[0]} has no successful run"
    same = " with the same settings" if comparison.unpaired else ""
    return f"no workload{same} on both sides"


def format_devices(question: Question) -> str:
    """Return the names of the devices that a question compares."""
    return " | ".join(dict.fromkeys(question.devices))


def has_different_runs(comparison: StoreComparison) -> bool:
    """Return whether the sides differ in their numbers of runs or sessions."""
    return len(_count_all_runs(comparison)) > 1


def format_runs(comparison: StoreComparison) -> str:
    """Format the runs of each side, or what stands behind each time if they differ."""
    if has_different_runs(comparison):
        return "each with (runs/sessions)"
    ((many, sessions),) = _count_all_runs(comparison)
    return f"each {text.count(many, 'run')} in {text.count(sessions, 'session')}"


def _count_all_runs(comparison: StoreComparison) -> set[tuple[int, int]]:
    return {
        _count_runs(side) for question in comparison.questions for side in (question.a, question.b)
    }


def _count_runs(side: ComparisonSide) -> tuple[int, int]:
    """Count the runs of one side, and their sessions."""
    return len(side.rows), len(side.sessions)


def _build_question_cells(
    question: Question, *, with_device: bool, with_runs: bool
) -> tuple[str, ...]:
    ratio = question.answer.ratio
    return (
        format_name(question.workload, question.parameters),
        *((format_devices(question),) if with_device else ()),
        *(format_side(side, with_runs=with_runs) for side in (question.a, question.b)),
        question.answer.verdict + (f" ({ratio.alone} alone)" if question.answer.corrected else ""),
        format_ratio(ratio.value, ratio.ci95),
        format_interval(*ratio.ci95) if ratio.ci95 else "",
    )


def format_side(side: ComparisonSide, *, with_runs: bool = True) -> str:
    """Format one side: ``2.71 ms (15/3)``, its time, number of runs and number of sessions."""
    runs, sessions = _count_runs(side)
    return text.seconds(side.typical_s) + (f" ({runs}/{sessions})" if with_runs else "")


def format_verdict(question: Question) -> str:
    """Format a verdict on B: ``1.04x faster``, ``40.2x slower``, ``unclear: 0.97–1.08x``."""
    ratio = question.answer.ratio
    return ratios.format_verdict(question.answer.verdict, ratio.value, ratio.ci95)


def format_long_verdict(question: Question) -> str:
    """Format a verdict with what B is compared with, and the interval if it is known."""
    ratio, verdict = question.answer.ratio, question.answer.verdict
    _, interval = format_effect(verdict, ratio.value, ratio.ci95)
    beside = " than A" if verdict in ("faster", "slower") else " the speed of A"
    words = f"{format_verdict(question)}{beside}"
    return words if interval is None else f"{words}, 95% interval {format_interval(*interval)}"


def format_notes(question: Question) -> list[str]:
    """Explain an unclear verdict, and list the doubts about its runs."""
    ratio = question.answer.ratio
    lines = []
    if min(ratio.sessions) < FEWEST_SESSIONS:
        lines.append(f"unclear: {_format_sessions(question)}; {format_spread(question.spread)}")
    elif question.answer.corrected:
        lines.append(
            f"its interval alone says {ratio.alone}; corrected for all comparisons (Holm), it may"
            " be chance"
        )
    for letter, side in (("A", question.a), ("B", question.b)):
        if side.marked:
            lines.append(
                f"{letter}: {side.marked} of {text.count(len(side.rows), 'run')} with warnings,"
                f" such as {side.mark}"
            )
        if len(side.rows) >= FEWEST and side.processes == 1:
            lines.append(
                f"{letter}: all runs are of one process: the interval lacks what differs between"
                " processes"
            )
    return lines


def _format_sessions(question: Question) -> str:
    """Format the sessions: ``one session per side (5 and 5 runs), of 3 that a verdict takes``."""
    ratio = question.answer.ratio
    (runs_a, runs_b), (a, b) = ratio.runs, ratio.sessions
    sessions = f"{text.count(a, 'session')} of A and {b} of B"
    if a == b:
        sessions = f"{'one session' if a == 1 else f'{a} sessions'} per side"
    return f"{sessions} ({runs_a} and {runs_b} runs); a verdict needs {FEWEST_SESSIONS}"


def format_spread(spread: Spread | None) -> str:
    """Describe the variation from run to run, for a question with too few sessions."""
    if spread is None:
        return "its variation from run to run is unknown"
    runs = text.count(spread.runs, "run")
    by = "" if spread.share > 1 else "by "
    return f"it varies {by}{text.variation(spread.share)} from run to run ({runs})"


def _format_unique_name(question: Question, among: StoreComparison) -> str:
    """Return a name that is unique among the questions."""
    alike = [other for other in among.questions if other.workload == question.workload]
    if len(alike) == 1:
        return question.workload
    name = format_name(question.workload, question.parameters)
    return f"{name} on {format_devices(question)}"


def find_shared_differences(comparison: StoreComparison) -> tuple[DifferingFact, ...]:
    """Return the differences between A and B that all workloads share."""
    if not comparison.questions:
        return ()
    shared = {*comparison.questions[0].differences}
    for question in comparison.questions:
        shared &= {*question.differences}
    return tuple(
        difference for difference in comparison.questions[0].differences if difference in shared
    )


def format_own_notes(question: Question, shared: Sequence[DifferingFact]) -> list[str]:
    """Return the notes of a workload, first the differences that not all workloads share."""
    own = [format_difference(fact) for fact in question.differences if fact not in shared]
    return [*([f"differs in {', '.join(own)}"] if own else []), *format_notes(question)]


def format_shared_differences(comparison: StoreComparison) -> list[str]:
    """Return a line with the differences from A that all workloads of B share.

    Without any, it says so, but nothing where a workload has differences of its own, or where both
    sides share no workload: their environments may differ then.
    """
    shared = find_shared_differences(comparison)
    if not comparison.questions or (
        not shared and any(question.differences for question in comparison.questions)
    ):
        return []
    words = ", ".join(map(format_difference, shared)) or "none that is known"
    return [f"changed from A to B (not necessarily causes): {words}"]


def format_comparison_notes(comparison: StoreComparison) -> list[str]:
    """Return the lines below the table: differences, notes, and the scope of the verdicts."""
    shared = find_shared_differences(comparison)
    lines = format_shared_differences(comparison)
    for question in comparison.questions:
        name = _format_unique_name(question, comparison)
        lines += [f"{name}: {note}" for note in format_own_notes(question, shared)]
    return lines + format_closing_notes(comparison)


def format_closing_notes(comparison: StoreComparison) -> list[str]:
    """Return the joint scope of the verdicts, and the workloads that could not be compared."""
    lines = []
    if comparison.short:
        lines.append(_format_advice(comparison.short))
    if comparison.tested > 1:
        corrected = sum(question.answer.corrected for question in comparison.questions)
        lines.append(
            f"corrected for {comparison.tested} comparisons (Holm): at most a 5% chance of any"
            f" false difference; without it, {comparison.false_alone:.1f} are expected by chance"
            + (f"; {corrected} became unclear" if corrected else "")
        )
    lines += [_format_unpaired(item) for item in comparison.unpaired[:_MOST_UNPAIRED]]
    if any(comparison.only):
        lines.append(f"on one side only: {comparison.only[0]} of A, {comparison.only[1]} of B")
    lines += [
        f"{left_out.what} are not compared: {left_out.number[0]} of A, {left_out.number[1]} of B"
        for left_out in comparison.left_out
    ]
    return lines


def _format_unpaired(unpaired: UnpairedWorkload) -> str:
    """Return why the runs of a workload were not compared: ``n is 2048 in A and 128 in B``."""
    words = [
        f"{fact.name} is {_list_values(fact.a)} in A and {_list_values(fact.b)} in B"
        for fact in unpaired.differences
    ]
    return f"{unpaired.workload} is not compared: {'; '.join(words)}"


def _list_values(values: Sequence[str]) -> str:
    further = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(values[:_MOST_VALUES]) + further


def _format_advice(short: Sequence[Question]) -> str:
    """Return the advice to add a session to the first question with too few."""
    first = short[0]
    further = f", likewise for {text.count(len(short) - 1, 'other')}" if len(short) > 1 else ""
    together = format_interleave_command(first)
    again = f"{format_run_command(first)}, {GAP_S / 60:.0f} minutes after the last run or later"
    boxes = _find_boxes(first)
    there = "" if boxes is None else f", or here with --host {boxes[0]} or --host {boxes[1]}"
    if together is not None:
        return f"to add sessions, alternate A and B: {together}; or one side: {again}{further}"
    return f"to add a session to a side, run there{there}: {again}{further}"


def find_two_boxes(comparison: StoreComparison) -> tuple[str, str] | None:
    """Return the machines of A and B; ``None`` unless each side is of one, and they differ."""
    boxes = {_find_boxes(question) for question in comparison.questions}
    return boxes.pop() if len(boxes) == 1 else None


def _find_boxes(question: Question) -> tuple[str, str] | None:
    box = next((fact for fact in question.differences if fact.name == "box"), None)
    if box is None or len(box.a) != 1 or len(box.b) != 1 or UNKNOWN in (*box.a, *box.b):
        return None
    return box.a[0], box.b[0]


# ---- advice ------------------------------------------------------------------------------------


def format_run_command(question: Question) -> str:
    """Return the command that measures a workload with its parameters again."""
    device = question.devices[1]
    words = ["gpu-workbench", "run", question.workload]
    for name, value in json.loads(question.parameters).items():
        words += ["--set", f"{name}={format_value(value)}"]
    return shlex.join([*words, "--device", device])


def format_interleave_command(question: Question) -> str | None:
    """Return the command that alternates both sides, if one box can run both.

    Returns:
        ``None`` if the sides differ in a fact that no option sets, such as the driver or the box.
    """
    words = [
        _find_settings(difference)
        for difference in question.differences
        if difference.name not in _FOLLOWS
    ]
    if not words or None in words or question.devices[0] != question.devices[1]:
        return None
    sides = [dict.fromkeys(pair[side] for pair in words if pair) for side in (0, 1)]
    a, b = (",".join(side) for side in sides)
    return f"{format_run_command(question)} --interleave {shlex.quote(a)} {shlex.quote(b)}"


def _find_settings(fact: DifferingFact) -> tuple[str, str] | None:
    """Return the settings that give a fact its values in A and B."""
    if fact.name in _OF_A_PYTHON:
        return "python=PATH_OF_A", "python=PATH_OF_B"
    for prefix in (FLAG, VARIABLE):
        if fact.name.startswith(prefix) and len(fact.a) == len(fact.b) == 1:
            if UNKNOWN in (*fact.a, *fact.b):
                return None
            name = fact.name.removeprefix(prefix)
            return f"{name}={fact.a[0]}", f"{name}={fact.b[0]}"
    return None


# ---- one result --------------------------------------------------------------------------------


def format_result(stored: StoredResult, outcome: str) -> list[str]:
    """Format one result with its conditions and all facts.

    Args:
        stored: the stored result.
        outcome: its outcome as a line.
    """
    record, facts = stored.record, stored.facts
    lines = [
        f"{record.id}  {record.kind} of {format_date(record.at)}",
        f"{record.workload} {format_short(record.parameters)} on {record.device}  {outcome}",
    ]
    timed = record.run.time if record.run else None
    if timed is not None:
        low, high = (text.seconds(end(timed.block_times_s, default=None)) for end in (min, max))
        lines.append(
            f"{text.count(timed.blocks, 'block')} of {low} to {high} a call,"
            f" {text.count(timed.calls, 'call')}"
        )
    if stored.tags:
        lines.append(f"tags: {', '.join(stored.tags)}")
    lines += [f"warning: {mark}" for mark in record.marks]
    seen = record.conditions
    if seen is not None and seen.samples:
        lines.append(
            f"{text.count(seen.samples, 'sample')}:"
            f" SM clock {text.megahertz(seen.sm_clock_mhz_median)},"
            f" power at most {text.watts(seen.power_w_max)}, temperature at most"
            f" {text.temperature(seen.temperature_c_max)}"
        )
    lines += [f"{name_fact(name)}: {value}" for name, value in facts.ranked]
    return lines + [f"{name_fact(name)}: {UNKNOWN}: {why}" for name, why in facts.unknown.items()]


# ---- for an issue --------------------------------------------------------------------------------


def format_markdown(
    rows: Sequence[StoredRow], facts: Environments, redact: Callable[[str], str] = str
) -> list[str]:
    """Return a Markdown table of workloads and environments, and a list of the environments.

    Args:
        rows: the results; those without a time are counted below the table.
        facts: facts by hash.
        redact: removes names from a warning's text.
    """
    groups: dict[tuple[str, str, str, str], list[StoredRow]] = {}
    for row in rows:
        if row.valid_s:
            key = (row.workload, row.measured, row.device, row.environment)
            groups.setdefault(key, []).append(row)
    used = list(dict.fromkeys(key[3] for key in groups))
    lines = [
        "| workload | device | median (fastest to slowest run) | runs | from run to run"
        " | warnings | environment |",
        "| --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for (workload, _, device, environment), group in sorted(groups.items()):
        times = [row.median_s for row in group if row.median_s]
        varied = compute_spread([times])
        cells = (
            format_name(workload, group[0].parameters),
            device,
            _format_run_times(times),
            str(len(times)),
            text.variation(varied.share) if varied else f"fewer than {FEWEST} runs",
            redact(_format_marked(group)),
            str(used.index(environment) + 1),
        )
        lines.append(f"| {' | '.join(map(escape_markdown, cells))} |")
    for number, environment in enumerate(used, 1):
        lines += ["", f"{number}. {escape_markdown(_format_facts(facts[environment]))}"]
    left_out = _format_left_out(rows, sum(map(len, groups.values())))
    return [*lines, "", left_out] if left_out else lines


def _format_run_times(times: Sequence[float]) -> str:
    """Format the runs' median and range; of two runs the range alone, as no run is between."""
    low, high = text.seconds(min(times)), text.seconds(max(times))
    if len(times) == 1:
        return low
    if len(times) < FEWEST:
        return f"{low} to {high}"
    return f"{text.seconds(statistics.median(times))} ({low} to {high})"


def _format_marked(group: Sequence[StoredRow]) -> str:
    """Count a group's runs with warnings and give one of them; empty without any."""
    marked = [row for row in group if row.marks]
    if not marked:
        return ""
    if len(group) == len(marked) == 1:
        return "; ".join(marked[0].marks)
    return f"{len(marked)} of {text.count(len(group), 'run')}, such as: {marked[0].marks[0]}"


def _format_left_out(rows: Sequence[StoredRow], listed: int) -> str:
    """Return a sentence that counts the results without a line in the table; empty without any."""
    comparisons = sum(row.kind == "comparison" for row in rows)
    runs = len(rows) - comparisons - listed
    counted = [
        *([text.count(comparisons, "comparison")] if comparisons else []),
        *([f"{text.count(runs, 'run')} without a complete time"] if runs else []),
    ]
    verb = "is" if comparisons + runs == 1 else "are"
    return f"{' and '.join(counted)} {verb} left out." if counted else ""


def _format_facts(facts: Facts) -> str:
    values = [f"{name_fact(name)} {value}" for name, value in facts.ranked]
    return ", ".join([*values, *(f"{name_fact(name)} {UNKNOWN}" for name in facts.unknown)])
