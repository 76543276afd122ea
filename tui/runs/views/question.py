"""The question of a first step with its choices and its answer, for a page and ``learn``. Pure."""

from __future__ import annotations

from tui.core.text import glyphs
from tui.kit.lines import Line, Span, TextStyle, line, paragraph, wrap
from workloads.protocol.results import WorkloadInfo

_INDENT = " " * 6
"""Below the text of a choice, behind its mark and its number."""


def question_lines(info: WorkloadInfo, cells: int, *, answered: bool = False) -> list[Line]:
    """Return the workload's question and its numbered choices.

    Args:
        info: the workload.
        cells: width of a line.
        answered: the right choice is marked.
    """
    rows = paragraph(info.question, cells, label="Question: ")
    for number in range(1, len(info.choices) + 1):
        marked = answered and number == info.right_choice
        usual = TextStyle.QUIET if answered else TextStyle.PLAIN
        style = TextStyle.GOOD if marked else usual
        rows += _choice_lines(info, number, cells, style, marked=marked)
    return rows


def answer_lines(info: WorkloadInfo, cells: int, chosen: int = 0) -> list[Line]:
    """Return whether the user's choice is right, and the answer to the workload's question.

    Args:
        info: the workload.
        cells: width of a line.
        chosen: number of the user's choice; 0 for none.
    """
    right = info.right_choice
    if chosen and chosen == right:
        words, style = f"You chose {chosen}: right.", TextStyle.GOOD
    elif chosen:
        words, style = f"You chose {chosen}, but {right} is right.", TextStyle.NOTE
    else:
        words, style = f"{right} is right." if right else "", TextStyle.PLAIN
    verdict = paragraph(words, cells, style) if words else []
    return [*verdict, *paragraph(info.answer, cells, label="Answer: ")]


def _choice_lines(
    info: WorkloadInfo, number: int, cells: int, style: TextStyle, *, marked: bool
) -> list[Line]:
    mark = glyphs.GLYPHS.selected if marked else " "
    first, *others = wrap(info.choices[number - 1], max(1, cells - len(_INDENT)))
    key = Span(f"{number}", TextStyle.KEY)
    rows = [line(Span(f"  {mark} ", style), key, " ", Span(first, style))]
    return [*rows, *(line(_INDENT, Span(row, style)) for row in others)]
