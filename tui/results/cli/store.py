"""Access to the store of results for commands, and the comparison of runs with stored ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.output import Failure, UsageError, nearest
from tui.results.store.compare import StoreComparison
from tui.results.store.database import Database, path
from tui.results.store.queries import compared
from tui.results.store.records import StoredRow
from tui.results.store.selection import Selection, SelectionError, both, read
from tui.results.store.store_file import StoreError

_HEXADECIMAL = frozenset("0123456789abcdef")


@contextmanager
def opened(*, writing: bool = False) -> Iterator[Database]:
    """Yield the store of this user.

    Raises:
        Failure: it cannot be opened, read or written.
        UsageError: what is asked of it selects nothing that there can be.
    """
    try:
        with Database(path(), writing=writing) as database:
            yield database
    except StoreError as error:
        raise Failure(str(error)) from error
    except SelectionError as error:
        raise UsageError(str(error)) from error


def selected(database: Database, text: str) -> Selection:
    """Return the selection that was typed, with ids and tags looked up.

    Raises:
        SelectionError: it is of no known form.
        UsageError: a word that is neither an id nor a tag, or the beginning of several ids.
    """
    found, words = read(text)
    for word in words:
        known = database.tags()
        if word in known:
            found = both(found, Selection(tags=(word,)))
            continue
        ids = database.ids(word) if _HEXADECIMAL.issuperset(word) else []
        if len(ids) > 1:
            raise UsageError(f"{word}: several results begin so: {', '.join(ids)}")
        if not ids:
            meant = nearest(word, list(known))
            hint = f" (did you mean {meant}?)" if meant else "; see results list"
            raise UsageError(f"{word}: no result has that id or tag{hint}")
        found = both(found, Selection(ids=(ids[0],)))
    return found


def _setting(row: StoredRow) -> tuple[str, str, str]:
    return row.workload, row.device, row.parameters


class Earlier:
    """Results that were there before a run began.

    Args:
        text: what selects them, as typed.

    Raises:
        Failure: the store cannot be read.
        UsageError: it selects nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.further = 0
        """Earlier runs that count as B beside those of this command."""
        with opened() as database:
            # What is run from here on is the other side, even where it would be selected too.
            self._wanted: Selection = both(selected(database, text), Selection(before=time.time()))
            if not database.count(self._wanted):
                raise UsageError(f"--against {text}: no result is of that; see results list")

    def compared(self, processes: Iterable[str], problems: Sequence[str]) -> StoreComparison:
        """Return the earlier results and those of these processes side by side.

        One command is one session, which is no evidence on its own. So B has the sessions before it
        too: runs of the same workloads in the same environment that A does not select.

        Args:
            processes: as the recorders named them.
            problems: why something was not kept.

        Raises:
            Failure: the store cannot be read, or not all was kept.
        """
        if problems:
            raise Failure(
                f"--against {self._text}: nothing is compared: not all results were stored"
            )
        with opened() as database:
            earlier = database.rows(self._wanted)
            newer = database.rows(Selection(processes=tuple(processes)))
            here = {_setting(row) for row in newer}
            taken = {row.number for row in (*earlier, *newer)}
            environments = tuple({row.environment for row in newer})
            of_these = database.rows(Selection(environments=environments)) if newer else []
            before = [row for row in of_these if _setting(row) in here and row.number not in taken]
            self.further = sum(row.status == "ok" for row in before)
            return compared(database, earlier, [*before, *newer])

    def text(self, found: StoreComparison, cells: int) -> str:
        """Return the comparison in lines of so many cells."""
        further = f" and {self.further} earlier of their environment" if self.further else ""
        return comparison_text(found, (self._text, f"these runs{further}"), cells)


def comparison_text(found: StoreComparison, names: tuple[str, str], cells: int) -> str:
    """Two sides in lines of so many cells, below what was printed before.

    Args:
        found: the comparison.
        names: what A is and what B is.
        cells: width of a line.
    """
    # Lazy: these bring Rich, which the help of the program does without.
    from tui.kit.lines import paragraph, plain
    from tui.kit.tables import table_lines
    from tui.results.views.results import compare_notes, compare_table

    lines = table_lines(compare_table(found), {}, cells)
    for note in compare_notes(found):
        lines += paragraph(note, cells, indent="  ")
    head = ["", f"A: {names[0]}", f"B: {names[1]}"]
    return rows_of_text([*head, *(plain(line).rstrip() for line in lines)])
