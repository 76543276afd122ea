"""The parts of a lesson as lines: title, list of steps, script, output and figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.core.text import glyphs
from tui.headless.script_run import ScriptEnd
from tui.kit.lines import Line, Span, TextStyle, fit, fit_line, left, line, paragraph, verbatim
from tui.runs.views.source import source_lines
from workloads.protocol.results import WorkloadInfo


def title_lines(info: WorkloadInfo, number: int, count: int, cells: int) -> list[Line]:
    """Return the title of a step, between rules.

    Args:
        info: the step.
        number: of the step, from 1.
        count: number of all steps.
        cells: width of a line.
    """
    rule = glyphs.GLYPHS.rule
    title = f"{rule * 2} {number} of {count}   {info.name}: {info.title} "
    return [
        line(Span(fit(title + rule * max(0, cells - len(title)), cells), TextStyle.HEADING)),
        (),
    ]


def contents(
    steps: Sequence[tuple[int, WorkloadInfo]], cells: int, answers: Mapping[str, str] | None = None
) -> list[Line]:
    """Return the numbers, names and titles of steps, below what a step consists of.

    Args:
        steps: the steps with their numbers.
        cells: width of a line.
        answers: how the steps that were taken were answered, by name.
    """
    answers = answers or {}
    words = f"{len(steps)} first steps, each a question, a script and its run here:"
    longest = max(len(info.name) for _, info in steps)
    room = max((len(answer) + 2 for answer in answers.values()), default=0)
    rows = [
        line(
            f"  {number:>2}  ",
            Span(left(info.name, longest), TextStyle.KEY),
            "  ",
            Span(left(answers.get(info.name, ""), room), TextStyle.QUIET),
            info.title,
        )
        for number, info in steps
    ]
    rows = [fit_line(row, cells) for row in rows]
    return [*paragraph(words, cells, TextStyle.HEADING), *rows, ()]


def code_part(info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the script of a step, or the timed lines of a user's own."""
    return [*source_lines(info, cells, f"gpu-workbench code {info.name} prints it"), ()]


def script_part(end: ScriptEnd, cells: int) -> list[Line]:
    """Return what the script printed, and how it failed."""
    rows = [line(Span("The script printed", TextStyle.HEADING))]
    if end.printed:
        rows += [row for entry in end.printed for row in verbatim(entry, cells)]
    else:
        rows.append(line(Span("  nothing", TextStyle.QUIET)))
    if end.error:
        rows += paragraph(f"The script failed: {end.error}", cells, TextStyle.BAD)
        rows += [row for entry in end.last_lines for row in verbatim(entry, cells)]
    return [*rows, ()]


def figures_part(info: WorkloadInfo, results: str, left_out: str = "") -> list[Line]:
    """Return the results of the workload, below a line that says how they come about.

    Args:
        info: the step.
        results: their text, fitted to the terminal.
        left_out: what they lack, and how to see it; empty if they are whole.
    """
    how = " with the functions of the script" if info.script else ""
    title = line(Span(f"What the workload {info.name} found{how}", TextStyle.HEADING))
    rows: list[Line] = []
    for row in results.splitlines():
        begins = bool(row) and not row.startswith(" ")  # the line of a device
        rows += [()] if begins and rows and rows[-1] else []
        rows.append(line(Span(row, TextStyle.STRONG if begins else TextStyle.PLAIN)))
    rest: list[Line] = [(), line(Span(left_out, TextStyle.QUIET))] if left_out else []
    return [title, *rows, *rest]
