"""Access to the store of results for commands, and the comparison of runs with stored ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.output import Failure, UsageError, nearest
from tui.kit.lines import paragraph, plain
from tui.kit.tables import table_lines
from tui.results.store import StoreError, store_path
from tui.results.store.compare import StoreComparison, question_of
from tui.results.store.database import Database
from tui.results.store.queries import compare_rows
from tui.results.store.selection import Selection, SelectionError, intersect, parse_selection
from tui.results.views.results import build_comparison_table, format_comparison_notes
from workloads.protocol.results import Table

_HEXADECIMAL = frozenset("0123456789abcdef")
_MOST_BOXES = 5
"""Machines that a line lists."""


@contextmanager
def open_store(*, writing: bool = False) -> Iterator[Database]:
    """Yield the store of this user.

    Raises:
        Failure: the store cannot be opened, read or written.
        UsageError: a selection is invalid.
    """
    try:
        with Database(store_path(), writing=writing) as database:
            yield database
    except StoreError as error:
        raise Failure(str(error)) from error
    except SelectionError as error:
        raise UsageError(str(error)) from error


def resolve_selection(database: Database, text: str) -> Selection:
    """Return the typed selection, with ids and tags resolved.

    Raises:
        SelectionError: the text has an unknown form.
        UsageError: a word is neither an id nor a tag, or it begins several ids.
    """
    selection, words = parse_selection(text)
    for word in words:
        known = database.count_tags()
        if word in known:
            selection = intersect(selection, Selection(tags=(word,)))
            continue
        ids = database.find_ids(word) if _HEXADECIMAL.issuperset(word) else []
        if len(ids) > 1:
            raise UsageError(f"{word}: several results begin so: {', '.join(ids)}")
        if not ids:
            meant = nearest(word, list(known))
            hint = f" (did you mean {meant}?)" if meant else "; see results list"
            if word in _list_boxes(database):
                hint = f"; for the results of that machine, give box={word}"
            raise UsageError(f"{word}: no result has that id or tag{hint}")
        selection = intersect(selection, Selection(ids=(ids[0],)))
    return selection


def explain_no_match(database: Database, text: str) -> str:
    """Return why a selection has no result, in a line that says what to do.

    Args:
        database: the store.
        text: the selection, as typed.
    """
    boxes = _list_boxes(database)
    box = dict(parse_selection(text)[0].facts).get("box")
    if box is None or box in boxes or not boxes:
        return f"{text}: no match; see results list"
    named = ", ".join(f"box={name}" for name in boxes[:_MOST_BOXES])
    further = f" and {len(boxes) - _MOST_BOXES} others" if len(boxes) > _MOST_BOXES else ""
    return f"{text}: no match; there are results of {named}{further}"


def _list_boxes(database: Database) -> list[str]:
    """Return the machines that have results, by name."""
    environments = database.read_facts().values()
    return sorted({facts.values["box"] for facts in environments if "box" in facts.values})


class Baseline:
    """The results that existed before a run began.

    Args:
        text: their selection, as typed.

    Raises:
        Failure: the store cannot be read.
        UsageError: the text selects nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.further = 0
        """Number of earlier runs that count as B, in addition to this command's runs."""
        with open_store() as database:
            # Later runs belong to the other side, even if the text selects them too.
            self._selection: Selection = intersect(
                resolve_selection(database, text), Selection(before=time.time())
            )
            if not database.count(self._selection):
                raise UsageError(f"--against {explain_no_match(database, text)}")

    def compare(self, processes: Iterable[str], problems: Sequence[str]) -> StoreComparison:
        """Compare the earlier results with these processes' results.

        One command is one session, which is no evidence on its own. So B includes earlier sessions
        too: runs of the same workloads in the same environment that A does not select.

        Args:
            processes: names of the runners, from the recorders.
            problems: reasons why results were not stored.

        Raises:
            Failure: the store cannot be read, or some results were not stored.
        """
        if problems:
            raise Failure(
                f"--against {self._text}: nothing is compared: not all results were stored"
            )
        with open_store() as database:
            earlier = database.read_rows(self._selection)
            newer = database.read_rows(Selection(processes=tuple(processes)))
            questions = {question_of(row) for row in newer}
            numbers = {row.number for row in (*earlier, *newer)}
            environments = tuple({row.environment for row in newer})
            of_these = database.read_rows(Selection(environments=environments)) if newer else []
            before = [
                row
                for row in of_these
                if question_of(row) in questions and row.number not in numbers
            ]
            self.further = sum(row.status == "ok" for row in before)
            return compare_rows(database, earlier, [*before, *newer])

    def text(self, comparison: StoreComparison, cells: int) -> str:
        """Format the comparison in lines of ``cells`` cells."""
        further = f" and {self.further} earlier of their environment" if self.further else ""
        return format_comparison(comparison, (self._text, f"these runs{further}"), cells)


def format_comparison(comparison: StoreComparison, names: tuple[str, str], cells: int) -> str:
    """Format a comparison as text that follows earlier output.

    Args:
        comparison: the comparison.
        names: descriptions of A and B.
        cells: width of a line.
    """
    head = rows_of_text(["", f"A: {names[0]}", f"B: {names[1]}"])
    notes = format_comparison_notes(comparison)
    return head + format_table(build_comparison_table(comparison), notes, cells)


def format_table(table: Table, notes: Sequence[str], cells: int) -> str:
    """Format a table with notes below it, in lines of ``cells`` cells."""
    lines = table_lines(table, {}, cells)
    for note in notes:
        lines += paragraph(note, cells, indent="  ")
    return rows_of_text(plain(line).rstrip() for line in lines)
