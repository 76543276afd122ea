"""The current position of each rank: a line per process, then the stacks of its threads."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.text import numbers as text
from tui.kit.lines import Line, Span, TextStyle, line, paragraph
from tui.snapshots.explain.frames import Frame, base_name, classify_frame
from tui.snapshots.explain.inventory import ThreadStack
from tui.snapshots.views.shared_lines import stack_lines
from tui.watch.runs.agents import RankStacks


def rank_stack_lines(ranks: Sequence[RankStacks], why_none: str, cells: int) -> list[Line]:
    """Return all processes, each with its own line, then their threads.

    Args:
        ranks: by rank.
        why_none: the text to show if there are no ranks.
        cells: width of a line.
    """
    if not ranks:
        return paragraph(why_none, cells, TextStyle.NOTE)
    rows = [row for rank in ranks for row in paragraph(describe_rank(rank), cells, indent="  ")]
    for rank in ranks:
        for thread in rank.stacks.threads if rank.stacks is not None else ():
            name = f"{_name(rank)}, {_thread_name(thread)}"
            rows += [(), line(Span(name, TextStyle.STRONG))]
            rows += stack_lines([_frame(frame) for frame in thread.frames], cells, whole=True)
        if rank.stacks is not None and rank.stacks.left_out:
            more = text.count(rank.stacks.left_out, "more thread")
            rows.append(line(Span(f"   and {more}", TextStyle.QUIET)))
    return rows


def describe_rank(rank: RankStacks) -> str:
    """Return the main thread's position: the user's own line, then the innermost."""
    if rank.stacks is None:
        return f"{_name(rank)}: {rank.why_none}"
    steps = text.count(rank.stacks.steps, "optimizer step")
    main = next((thread for thread in rank.stacks.threads if thread.main), None)
    if main is None or not main.frames:
        return f"{_name(rank)}, {steps}: the main thread has no Python stack"
    own = next((frame for frame in main.frames if classify_frame(_frame(frame)) == "user"), None)
    innermost = main.frames[0]
    where = f"at {_place(innermost)}"
    if own is not None and own != innermost:
        where = f"at {_place(own)}, in {_place(innermost)}"
    return f"{_name(rank)}, {steps}: {where}"


def _name(rank: RankStacks) -> str:
    return f"process {rank.pid}" if rank.rank is None else f"rank {rank.rank} ({rank.pid})"


def _thread_name(thread: ThreadStack) -> str:
    return "main thread" if thread.main else f"thread {thread.name}" if thread.name else "a thread"


def _place(place: Frame) -> str:
    return f"{base_name(place.filename)}:{place.line} in {place.name}"


def _frame(place: Frame) -> Frame:
    return Frame(place.filename, place.line, place.name)
