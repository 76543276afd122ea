"""``run --against NAME``: what was run is held against results that were kept earlier."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tui.cli.errors import Failure, UsageError
from tui.cli.results_store import opened, selected
from tui.text.glyphs import rows_of_text

if TYPE_CHECKING:
    from tui.results.compare import Compared
    from tui.results.selection import Selection


class Earlier:
    """Results that were there before a run began.

    Args:
        text: what selects them, as typed.

    Raises:
        Failure: the store cannot be read.
        UsageError: it selects nothing.
    """

    def __init__(self, text: str) -> None:
        from tui.results.selection import Selection, both

        self._text = text
        with opened() as database:
            # What is run from here on is the other side, even where it would be selected too.
            self._wanted: Selection = both(selected(database, text), Selection(before=time.time()))
            if not database.count(self._wanted):
                raise UsageError(f"--against {text}: no result is of that; see results list")

    def compared(self, processes: Iterable[str], problems: Sequence[str]) -> Compared:
        """The earlier results and those of these processes side by side.

        Args:
            processes: as the keepers named them.
            problems: why something was not kept.

        Raises:
            Failure: the store cannot be read, or not all was kept.
        """
        from tui.results.look import compared
        from tui.results.selection import Selection

        if problems:
            raise Failure(f"--against {self._text}: nothing is compared: not all results are kept")
        with opened() as database:
            earlier = database.rows(self._wanted)
            newer = database.rows(Selection(processes=tuple(processes)))
            return compared(database, earlier, newer)

    def text(self, found: Compared, cells: int) -> str:
        """The comparison in lines of so many cells."""
        from tui.ui.views.lines import paragraph, plain
        from tui.ui.views.results import compare_notes, compare_table
        from tui.ui.views.tables import table_lines

        lines = table_lines(compare_table(found), {}, cells)
        for note in compare_notes(found):
            lines += paragraph(note, cells, indent="  ")
        head = ["", f"A: {self._text}", "B: these runs"]
        return rows_of_text([*head, *(plain(line).rstrip() for line in lines)])
