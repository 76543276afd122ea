"""The actions of ``gpu-workbench results``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.output import (
    Failure,
    UsageError,
    print_json,
    print_line,
    print_text,
    say,
    width,
)
from tui.kit.lines import paragraph, plain
from tui.kit.tables import table_lines
from tui.results.cli.results import SHOWN, ResultsOptions
from tui.results.cli.store import opened, selected
from tui.results.store.database import Database
from tui.results.store.exchange import ExchangeError, ResultRedaction, lines_of, read_file
from tui.results.store.queries import check_tag, compared
from tui.results.store.records import StoredResult, StoredRow
from tui.results.store.selection import Selection, both, moment
from tui.results.store.store_file import StoreError
from tui.results.store.validity import ImpossibleError, check_kept
from tui.results.views.results import (
    compare_notes,
    compare_table,
    list_table,
    markdown_lines,
    show_lines,
)
from tui.runs.views.result_text import result_summary
from workloads.protocol.results import Table

MOST_SHOWN = 1_000_000
"""SQLite bounds its limits; no list is read that far."""


def perform(options: ResultsOptions) -> int:
    """Perform the action that was asked for; return the exit code.

    Raises:
        UsageError: an option has no meaning, or selects nothing.
    """
    try:
        return ACTIONS[options.verb](options)
    except Failure as failure:
        say(str(failure))
        return 1


def _wanted(options: ResultsOptions) -> Selection:
    """Return the selection that the options describe.

    Raises:
        SelectionError: a date that is none.
    """
    return Selection(
        facts=(("box", options.of_box),) if options.of_box else (),
        tags=(options.tagged,) if options.tagged else (),
        before=moment(options.before) if options.before else None,
        since=moment(options.since) if options.since else None,
        workload=options.of_workload,
        device=options.on_device,
    )


def _list(options: ResultsOptions) -> int:
    if options.limit is not None and not 1 <= options.limit <= MOST_SHOWN:
        raise UsageError(f"--limit {options.limit}: from 1 to {MOST_SHOWN}")
    with opened() as database:
        wanted = _wanted(options)
        rows = database.rows(wanted, options.limit or SHOWN)
        if options.json:
            facts = {row.environment: database.facts()[row.environment] for row in rows}
            print_json({"results": rows, "environments": facts})
            return 0
        total = database.count(wanted)
        if not rows:
            print_line(_nothing(database))
            return 0
        tags = database.tags_of(rows)
        _print_table(list_table(rows, database.facts(), tags, total))
    return 0


def _nothing(database: Database) -> str:
    if not database.count():
        return f"no results are kept in {database.place}: run and the workbench keep theirs there"
    return f"none of {database.count()} results is of that"


def _print_table(table: Table, notes: Sequence[str] = ()) -> None:
    cells = width()
    lines = table_lines(table, {}, cells)
    for note in notes:
        lines += paragraph(note, cells, indent="  ")
    print_text(rows_of_text(plain(line).rstrip() for line in lines))


def _show(options: ResultsOptions) -> int:
    with opened() as database:
        (row,) = _rows(database, options.words[:1], most=1)
        kept = database.kept(row)
    if options.json:
        print_json({"result": kept})
        return 0
    said = result_summary(kept.record.run) if kept.record.run else row.said
    print_text(rows_of_text(show_lines(kept, said)))
    return 0


def _rows(database: Database, words: Sequence[str], most: int | None = None) -> list[StoredRow]:
    """Return the results that words select, each once.

    Raises:
        UsageError: a word that selects none, or more than may be.
    """
    found: dict[int, StoredRow] = {}
    for word in words:
        rows = database.rows(selected(database, word))
        if not rows:
            raise UsageError(f"{word}: no result is of that; see results list")
        found.update((row.number, row) for row in rows)
    if most is not None and len(found) > most:
        raise UsageError(f"{', '.join(words)}: that are {len(found)} results; give an id")
    return list(found.values())


def _tag(options: ResultsOptions) -> int:
    *words, name = options.words
    if not words:
        raise UsageError("results tag: give what selects results, and then the name")
    with opened(writing=True) as database:
        check_tag(database, name)
        rows = _rows(database, words)
        database.tag([row.number for row in rows], name)
    print_line(f"{len(rows)} results have the tag {name}")
    return 0


def _delete(options: ResultsOptions) -> int:
    with opened(writing=True) as database:
        rows = _rows(database, options.words)
        database.delete([row.number for row in rows])
    print_line(f"{len(rows)} results are deleted")
    return 0


def _prune(options: ResultsOptions) -> int:
    with opened(writing=True) as database:
        rows = database.rows(Selection(before=moment(options.older)))
        tagged = database.tags_of(rows)
        old = [row.number for row in rows if row.number not in tagged]
        database.delete(old)
    left = f"; {len(tagged)} older ones have tags and stay" if tagged else ""
    print_line(f"{len(old)} results are deleted{left}")
    return 0


def _compare(options: ResultsOptions) -> int:
    with opened() as database:
        of = Selection(workload=options.of_workload)
        sides = []
        for word in options.words:
            rows = database.rows(both(selected(database, word), of))
            if not rows:
                raise UsageError(f"{word}: no result is of that; see results list")
            sides.append(rows)
        found = compared(database, *sides)
    if options.json:
        print_json({"a": options.words[0], "b": options.words[1], "compared": found})
        return 0
    head = [f"A: {options.words[0]}", f"B: {options.words[1]}"]
    print_text(rows_of_text(head))
    _print_table(compare_table(found), compare_notes(found))
    return 0


def _export(options: ResultsOptions) -> int:
    with opened() as database:
        wanted = _wanted(options)
        for word in options.words:
            wanted = both(wanted, selected(database, word))
        rows = database.rows(wanted)[::-1]
        known = database.facts()
        redacted = ResultRedaction(facts.values.get("box", "") for facts in known.values())
        if options.markdown:
            if options.without_names:
                used = {row.environment for row in rows}
                known = {key: redacted.facts(known[key]) for key in used}
            print_text(rows_of_text(markdown_lines(rows, known)))
            return 0
        left_out: list[str] = []
        kept = _readable(database, rows, left_out)
        for line in lines_of(map(redacted, kept) if options.without_names else kept):
            print_line(line)
    for reason in left_out[:SHOWN]:
        say(reason)
    if left_out:
        say(f"{len(left_out)} of {len(rows)} results cannot be true and are left out")
    return 1 if left_out else 0


def _readable(
    database: Database, rows: Sequence[StoredRow], left_out: list[str]
) -> Iterator[StoredResult]:
    """Yield what can be read and be true, so that the export can be taken in elsewhere."""
    for row in rows:
        try:
            kept = database.kept(row)
            check_kept(kept)
        except StoreError as error:
            left_out.append(str(error))
        except ImpossibleError as error:
            left_out.append(f"{row.id}: {error}")
        else:
            yield kept


def _import(options: ResultsOptions) -> int:
    found = []
    for name in options.words:
        try:
            found.append(read_file(Path(name)))
        except ExchangeError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            raise Failure(f"{name}: {error.strerror or error}") from error
    with opened(writing=True) as database:
        for name, kept in zip(options.words, found, strict=True):
            new = database.add(kept)
            known = f", {len(kept) - new} were there already" if new < len(kept) else ""
            print_line(f"{name}: {new} results are taken in{known}")
    return 0


ACTIONS: Mapping[str, Callable[[ResultsOptions], int]] = {
    "list": _list,
    "show": _show,
    "tag": _tag,
    "delete": _delete,
    "prune": _prune,
    "compare": _compare,
    "export": _export,
    "import": _import,
}
