"""The description of a workload before its first run: the detail in brief. Pure."""

from __future__ import annotations

import re

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import Line, TextStyle, paragraph
from tui.runs.state.result_format import format_time
from tui.runs.state.runs import EarlierResult
from tui.runs.state.state import RunsState
from tui.runs.views.workload_table import list_devices
from workloads.protocol.results import WorkloadInfo

_THOUGHT_END = re.compile(r"[.;] ")
"""Ends the first thought of a description."""


def brief_lines(state: RunsState, workload: str | None, cells: int, room: int) -> list[Line]:
    """Describe a workload before its first run, with earlier results; empty after a run.

    Before the first run of all, users need an overview: the description has one thought.

    Args:
        state: the state of the runs.
        workload: its name.
        cells: width of a line.
        room: rows that the description may fill.
    """
    info = state.find_workload(workload)
    names = list_devices(state)
    if info is None or info.name in state.sweeps:
        return []
    if any(state.latest_run(info.name, device) for device in names):
        return []
    facts = paragraph(", ".join(info.needs), cells, label="Needs: ") if info.needs else []
    found = {device: state.earlier_result(info, device) for device in names}
    for device, earlier in found.items():
        if earlier is not None:
            words = f"{device}, earlier: {format_earlier(state, earlier)}"
            facts += paragraph(words, cells, TextStyle.QUIET)
    # Before the first run, the row under the cursor has the title, unless it has a figure.
    titled = not state.started and not any(found.values())
    title = f"{info.name}: {info.title}"
    rows = [] if titled else paragraph(title, cells, TextStyle.STRONG)
    rows += skipped_lines(state, info, cells)
    if not state.started:
        return [*rows, *fit_description(info.about, cells, 0), *facts]
    rows += [*fit_description(info.about, cells, room - len(rows) - len(facts)), *facts]
    hint = paragraph(info.look_for, cells, label="Look for: ")
    return [*rows, (), *hint] if len(rows) + 1 + len(hint) <= room else rows


def fit_description(description: str, cells: int, room: int, *, label: str = "") -> list[Line]:
    """Return the first thoughts of a description: as many as fit, at least one.

    Args:
        description: of one or more thoughts.
        cells: width of a line.
        room: the available rows.
        label: precedes the description.
    """
    ends = [*(end.start() for end in _THOUGHT_END.finditer(description)), len(description)]
    first, *longer = [
        paragraph(f"{description[:end].removesuffix('.')}.", cells, label=label) for end in ends
    ]
    return next((rows for rows in reversed(longer) if len(rows) <= room), first)


def split_first_sentence(description: str) -> tuple[str, str]:
    """Return the first sentence of a description, and the rest, which may be empty."""
    first, _, rest = description.partition(". ")
    return (f"{first}." if rest else first), rest


def first_sentences(description: str, most: int) -> str:
    """Return the first sentences of a description, at most ``most``."""
    sentences: list[str] = []
    while description and len(sentences) < most:
        first, description = split_first_sentence(description)
        sentences.append(first)
    return " ".join(sentences)


def skipped_lines(state: RunsState, info: WorkloadInfo, cells: int) -> list[Line]:
    """Explain why a run leaves out the selected GPU, if torch does not see it."""
    if state.runner.status == "not started":
        return []  # the first run shows torch's devices
    gpu = state.machine.gpu_column
    if gpu is None or gpu.torch or not gpu.unpaired or "cuda" not in info.devices:
        return []
    words = f"{gpu.label} skipped: {gpu.unpaired}"
    return paragraph(words, cells, TextStyle.NOTE, indent="  ")


def format_earlier(state: RunsState, earlier: EarlierResult) -> str:
    """Format an earlier result: ``2.71 ms ±0.4%, 2 d ago with driver 580.65, torch 2.13.0``.

    ``!`` comes first if its time is not to be trusted. A failed run has its reason instead.
    """
    software = [f"driver {earlier.driver}"] if earlier.driver else []
    software += [f"torch {earlier.torch}"] if earlier.torch else []
    used = f" with {', '.join(software)}" if software else ""
    mark = "" if earlier.trusted or earlier.failure else f"{glyphs.GLYPHS.warning} "
    figure = f"failed ({earlier.failure})" if earlier.failure else format_time(earlier)
    return f"{mark}{figure}, {text.age(state.now - earlier.at)}{used}"
