"""The warnings of several runs as a list of causes, each with the names of its runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tui.core.text import glyphs
from tui.kit.lines import wrap
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.sweeps.sweep_result import format_settings
from workloads.protocol.results import UNTRUSTED

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\.?\d)")
"""Not the digits of a name such as ``float32``."""

_FINDINGS = re.compile(r'(?<= cores: )the (?:table|chart|figure) ".* (?:is|are) unreliable')
"""The names of what a workload found, at the end of a warning."""
_ALL_FINDINGS = "the tables, charts and figures that --json names are unreliable"


def list_causes(state: RunsState, states: Sequence[RunState], cells: int) -> list[str]:
    """Return a paragraph for each cause of warnings, with the runs that have it.

    Warnings that differ only in their numbers, or in the named tables, charts and figures, have
    one cause.

    Args:
        state: the state of the runs.
        states: the runs.
        cells: width of a line.
    """
    causes: dict[str, list[tuple[str, RunState]]] = {}
    for entry in states:
        for warning in entry.warnings:
            causes.setdefault(_FINDINGS.sub("", _NUMBER.sub("0", warning)), []).append(
                (warning, entry)
            )
    rows: list[str] = []
    for found in causes.values():
        texts = list(dict.fromkeys(warning for warning, _ in found))
        if len(texts) > 1:
            texts = [_FINDINGS.sub(_ALL_FINDINGS, each) for each in texts]
        text = join_numbers(texts)
        runs = {entry.request.id: entry for _, entry in found}
        if len(runs) > 1:
            text = text.replace(UNTRUSTED, f"{UNTRUSTED.replace('this', 'these')}s")
        names = _name_runs(state, states, list(runs.values()))
        rows += wrap(f"warning: {text} ({names})", cells, "  ")
    return rows


def join_numbers(texts: Sequence[str]) -> str:
    """Return texts that differ in their numbers alone as one: ``quartiles 9-26% apart``."""
    if len(texts) == 1:
        return texts[0]
    rows: list[list[str]] = [_NUMBER.findall(each) for each in texts]
    columns: Iterator[tuple[str, ...]] = zip(*rows, strict=True)

    def join(_: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        if len(numbers) == 1:
            return numbers[0]
        return f"{numbers[0]}{glyphs.GLYPHS.dash}{numbers[-1]}"

    return _NUMBER.sub(join, texts[0])


def _name_runs(state: RunsState, states: Sequence[RunState], runs: Sequence[RunState]) -> str:
    """Return the names of runs: ``matmul n=32, n=64; conv2d``, or that all have the warning."""
    if len(runs) == len(states):
        return f"all {len(runs)} runs"
    devices = {entry.request.device for entry in states}
    named: dict[str, list[str]] = {}
    for entry in runs:
        request = entry.request
        name = request.workload + (f" on {request.device}" if len(devices) > 1 else "")
        sweep = state.sweeps.get(request.workload)
        settings = format_settings(sweep, request.parameters) if sweep is not None else ""
        named.setdefault(name, []).append(settings)
    parts = (f"{name} {', '.join(filter(None, points))}" for name, points in named.items())
    return "; ".join(part.strip() for part in parts)
