"""The store of results as commands use it: opened, told where it cannot be, and asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tui.cli.errors import Failure, UsageError
from tui.cli.nearest import nearest
from tui.results.store_file import SelectionError, StoreError

if TYPE_CHECKING:
    from tui.cli.options import Parser
    from tui.results.database import Database
    from tui.results.keeper import Keeper
    from tui.results.selection import Selection

_HEXADECIMAL = frozenset("0123456789abcdef")


def add_no_store(parser: Parser, name: str = "store") -> None:
    """``store``, or another name: whether what is measured is kept."""
    parser.add_argument(
        "--no-store", dest=name, action="store_false", help="keep no results for later"
    )


def keeper_for(*, wanted: bool) -> Keeper | None:
    """What keeps the results of a session; ``None`` where nothing is to be kept."""
    if not wanted:
        return None
    from tui.results.keeper import Keeper

    return Keeper()


@contextmanager
def opened(*, writing: bool = False) -> Iterator[Database]:
    """The store of this user.

    Raises:
        Failure: it cannot be opened, read or written.
        UsageError: what is asked of it selects nothing that there can be.
    """
    # The door to SQLite, which no other command pays for.
    from tui.results.database import Database, path

    try:
        with Database(path(), writing=writing) as database:
            yield database
    except StoreError as error:
        raise Failure(str(error)) from error
    except SelectionError as error:
        raise UsageError(str(error)) from error


def selected(database: Database, text: str) -> Selection:
    """What was typed, with its words looked up: ids and tags.

    Raises:
        SelectionError: it is of no known form.
        UsageError: a word that is neither an id nor a tag, or the beginning of several ids.
    """
    from tui.results.selection import Selection, both, read

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
