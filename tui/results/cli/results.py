"""``gpu-workbench results``: list, show, change, compare, export and import stored results."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.core.text.glyphs import rows_of_text
from tui.core.text.numbers import count
from tui.kit.command_line.options import Parser, Subcommand
from tui.kit.command_line.output import (
    Failure,
    UsageError,
    confirm,
    describe_os_error,
    fit_to_terminal,
    print_json,
    print_line,
    print_notice,
    print_text,
    width,
)
from tui.kit.command_line.values import whole_number
from tui.results.cli.store import (
    explain_no_match,
    format_table,
    open_store,
    resolve_selection,
)
from tui.results.store import StoreError
from tui.results.store.database import Database
from tui.results.store.exchange import ExchangeError, ResultRedaction, encode_lines, read_file
from tui.results.store.queries import check_tag, compare_rows
from tui.results.store.records import StoredResult, StoredRow
from tui.results.store.selection import FORMS, Selection, SelectionError, intersect, parse_time
from tui.results.store.validity import ImpossibleError, check_result
from tui.results.views.results import (
    SHORT_ID,
    build_comparison_table,
    build_list_table,
    encode_rows,
    find_two_boxes,
    format_comparison_notes,
    format_markdown,
    format_result,
)
from tui.results.views.row_texts import format_name
from tui.runs.views.result_text import format_comparison_outcome, format_summary

_SELECTS = (
    f"{FORMS}; several at once with commas; box= is a machine's name, or what --host named it"
)
SHOWN = 50
"""Default number of results in a list."""
_MOST_NAMED = 5
"""Most deleted results to name."""
MOST_SHOWN = 1_000_000
"""Most rows of a list; SQLite bounds its limits."""


@dataclass(frozen=True, slots=True)
class ResultsOptions:
    """The action and its results."""

    verb: str = "list"
    words: Sequence[str] = ()
    """Ids, selections or files, depending on the verb."""
    tag_name: Sequence[str] = ()
    """The name that ``tag`` gives."""
    asks: bool = True
    """Ask on a terminal before results are deleted."""
    json: bool = False
    of_workload: str = ""
    of_box: str = ""
    on_device: str = ""
    since: str = ""
    before: str = ""
    tagged: str = ""
    limit: int | None = None
    """Most results of a list; ``None`` for :data:`SHOWN`."""
    older: str = ""
    """A date or an age; older results are deleted."""
    markdown: bool = False
    without_names: bool = False
    """Remove the names of users and machines."""


def add_options(parser: Parser) -> None:
    """Add the subcommands and the options that select results."""
    _add_filter(parser)
    _add_list(parser)
    verbs = parser.add_subparsers(metavar="WHAT", title="actions")

    def verb(name: str, about: str) -> argparse.ArgumentParser:
        subparser = verbs.add_parser(name, help=about, description=about)
        subparser.set_defaults(verb=name)
        return subparser

    listed = verb("list", "List results, the newest first (the default).")
    _add_filter(listed)
    _add_list(listed)
    shown = verb("show", "Show everything about one result.")
    shown.add_argument("words", nargs=1, metavar="ID", help="the result's id, or its first digits")
    _add_json(shown)
    tagged = verb("tag", "Tag results with a name.")
    tagged.add_argument(
        "words",
        nargs="+",
        metavar="ID",
        help="which results: an id, a tag, box=…, …",
    )
    tagged.add_argument("tag_name", nargs=1, metavar="NAME", help="the tag's name")
    deleted = verb("delete", "Delete results.")
    deleted.add_argument(
        "words", nargs="+", metavar="ID", help="which results: an id, a tag, box=…, …"
    )
    deleted.add_argument(
        "--yes", dest="asks", action="store_false", help="do not ask on a terminal"
    )
    pruned = verb("prune", "Delete old results.")
    pruned.add_argument(
        "--older",
        required=True,
        metavar="T",
        help="delete results older than this, such as 90d or 2026-01-31",
    )
    compared = verb("compare", "Compare two sets of results: is B faster, slower or the same?")
    compared.add_argument("words", action="append", metavar="A", help=_SELECTS)
    compared.add_argument("words", action="append", metavar="B", help="the other set, likewise")
    compared.add_argument(
        "--workload", dest="of_workload", metavar="NAME", help="compare only this workload"
    )
    _add_json(compared)
    exported = verb("export", "Print results for another machine, or as a table for an issue.")
    _add_filter(exported)
    exported.add_argument("words", nargs="*", metavar="ID", help=_SELECTS)
    exported.add_argument("--markdown", action="store_true", help="print a Markdown table")
    exported.add_argument(
        "--redact",
        dest="without_names",
        action="store_true",
        help="leave out the names of users, machines and GPUs",
    )
    imported = verb("import", "Import results from files written by export or run --json.")
    imported.add_argument(
        "words", nargs="+", metavar="FILE", help="a file from this or another machine"
    )


def _add_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workload", dest="of_workload", metavar="NAME", help="only results of this workload"
    )
    parser.add_argument("--box", dest="of_box", metavar="B", help="only results of this machine")
    parser.add_argument(
        "--device",
        dest="on_device",
        metavar="D",
        help="only results of this device, such as cuda or cuda:0",
    )
    parser.add_argument(
        "--since", metavar="T", help="only results since T, such as 2026-01-31, 7d or 12h"
    )
    parser.add_argument("--before", metavar="T", help="only results before T")
    parser.add_argument("--tag", dest="tagged", metavar="T", help="only results with this tag")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=whole_number("--limit"),
        metavar="N",
        help=f"show N results (default: {SHOWN})",
    )
    _add_json(parser)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


# ---- the actions ----


def perform(options: ResultsOptions) -> int:
    """Perform the requested action; return the exit code.

    Raises:
        UsageError: an option has no meaning, or selects nothing.
    """
    try:
        return ACTIONS[options.verb](options)
    except Failure as failure:
        print_notice(str(failure))
        return 1


def _build_selection(options: ResultsOptions) -> Selection:
    """Return the selection that the options describe.

    Raises:
        SelectionError: a date is invalid.
    """
    return Selection(
        facts=(("box", options.of_box),) if options.of_box else (),
        tags=(options.tagged,) if options.tagged else (),
        before=_parse_time("--before", options.before) if options.before else None,
        since=_parse_time("--since", options.since) if options.since else None,
        workload=options.of_workload,
        device=options.on_device,
    )


def _parse_time(flag: str, text: str) -> float:
    """Parse the time of an option as Unix time.

    Raises:
        SelectionError: it is no time; the message names the option.
    """
    try:
        return parse_time(text)
    except SelectionError as error:
        raise SelectionError(f"{flag} {error}") from error


def _list(options: ResultsOptions) -> int:
    if options.limit is not None and not 1 <= options.limit <= MOST_SHOWN:
        raise UsageError(f"--limit {options.limit}: from 1 to {MOST_SHOWN}")
    with open_store() as database:
        selection = _build_selection(options)
        rows = database.read_rows(selection, options.limit or SHOWN)
        if options.json:
            facts = {row.environment: database.read_facts()[row.environment] for row in rows}
            print_json({"results": encode_rows(rows), "environments": facts})
            return 0
        total = database.count(selection)
        if not rows:
            print_line(_explain_empty(database))
            return 0
        tags = database.read_tags(rows)
        table = build_list_table(rows, database.read_facts(), tags, total)
        print_text(format_table(table, (), width()))
    return 0


def _explain_empty(database: Database) -> str:
    if not database.count():
        return (
            f"no results are stored in {database.place}: run and the workbench store theirs there"
        )
    return f"none of the {database.count()} stored results matches"


def _show(options: ResultsOptions) -> int:
    with open_store() as database:
        (row,) = _find_rows(database, options.words[:1], most=1)
        stored = database.read_result(row)
    if options.json:
        print_json({"result": stored})
        return 0
    run, comparison = stored.record.run, stored.record.comparison
    summary = row.outcome
    if run is not None:
        summary = format_summary(run)
    elif comparison is not None:
        summary = format_comparison_outcome(comparison)
    print_text(fit_to_terminal(rows_of_text(format_result(stored, summary))))
    return 0


def _find_rows(
    database: Database, words: Sequence[str], most: int | None = None
) -> list[StoredRow]:
    """Return the results that the words select, each once.

    Raises:
        UsageError: a word selects no result, or too many.
    """
    stored: dict[int, StoredRow] = {}
    for word in words:
        rows = database.read_rows(resolve_selection(database, word))
        if not rows:
            raise UsageError(explain_no_match(database, word))
        stored.update((row.number, row) for row in rows)
    if most is not None and len(stored) > most:
        raise UsageError(f"{', '.join(words)}: these are {len(stored)} results; give an id")
    return list(stored.values())


def _tag(options: ResultsOptions) -> int:
    (name,) = options.tag_name
    with open_store(writing=True) as database:
        check_tag(database, name)
        rows = _find_rows(database, options.words)
        database.tag([row.number for row in rows], name)
    verb = "has" if len(rows) == 1 else "have"
    print_line(f"{count(len(rows), 'result')} {verb} the tag {name}")
    return 0


def _delete(options: ResultsOptions) -> int:
    with open_store(writing=True) as database:
        rows = _find_rows(database, options.words)
        names = ", ".join(
            f"{row.id[:SHORT_ID]} {format_name(row.workload, row.parameters)}"
            for row in rows[:_MOST_NAMED]
        )
        names += ", …" if len(rows) > _MOST_NAMED else ""
        question = f"Delete {count(len(rows), 'result')} for good: {names}?"
        if options.asks and not confirm(question):
            print_line("nothing was deleted")
            return 1
        database.delete([row.number for row in rows])
    print_line(f"{_describe_deleted(len(rows))}: {names}")
    return 0


def _describe_deleted(number: int) -> str:
    return f"{count(number, 'result')} {'was' if number == 1 else 'were'} deleted"


def _prune(options: ResultsOptions) -> int:
    with open_store(writing=True) as database:
        rows = database.read_rows(Selection(before=_parse_time("--older", options.older)))
        tagged = database.read_tags(rows)
        old = [row.number for row in rows if row.number not in tagged]
        database.delete(old)
    left = f"; {len(tagged)} older ones have tags and stay" if tagged else ""
    print_line(f"{_describe_deleted(len(old))}{left}")
    return 0


def _compare(options: ResultsOptions) -> int:
    """Print the comparison of two selections; return 1 if they have nothing to compare."""
    with open_store() as database:
        of = Selection(workload=options.of_workload)
        sides = []
        for word in options.words:
            rows = database.read_rows(intersect(resolve_selection(database, word), of))
            if not rows:
                raise UsageError(explain_no_match(database, word))
            sides.append(rows)
        comparison = compare_rows(database, *sides)
    code = 0 if comparison.questions else 1
    if options.json:
        print_json({"a": options.words[0], "b": options.words[1], "compared": comparison})
        return code
    head = [f"A: {options.words[0]}", f"B: {options.words[1]}"]
    print_text(rows_of_text(head))
    notes = format_comparison_notes(comparison)
    boxes = find_two_boxes(comparison)
    if boxes is not None and not any("box=" in word for word in options.words):
        of_boxes = shlex.join(f"box={box}" for box in boxes)
        notes.append(
            "A and B are of two machines; to compare all their results:"
            f" gpu-workbench results compare {of_boxes}"
        )
    print_text(format_table(build_comparison_table(comparison), notes, width()))
    return code


def _export(options: ResultsOptions) -> int:
    with open_store() as database:
        selection = _build_selection(options)
        for word in options.words:
            if word not in database.count_tags():
                _refuse_file(word)
            selection = intersect(selection, resolve_selection(database, word))
        rows = database.read_rows(selection)[::-1]
        known = database.read_facts()
        redacted = ResultRedaction(facts.values.get("box", "") for facts in known.values())
        if options.markdown:
            if options.without_names:
                used = {row.environment for row in rows}
                known = {key: redacted.facts(known[key]) for key in used}
            redact = redacted.text if options.without_names else str
            print_text(rows_of_text(format_markdown(rows, known, redact)))
            return 0
        left_out: list[str] = []
        results = _read_valid(database, rows, left_out)
        for line in encode_lines(map(redacted, results) if options.without_names else results):
            print_line(line)
    for reason in left_out[:SHOWN]:
        print_notice(reason)
    if left_out:
        print_notice(f"{len(left_out)} of {len(rows)} results left out: impossible")
    return 1 if left_out else 0


def _refuse_file(word: str) -> None:
    """Refuse the name of a file, since export selects results by its words.

    Raises:
        UsageError: the word looks like a path.
    """
    if "=" not in word and ("/" in word or word.endswith((".json", ".jsonl", ".md"))):
        command = f"gpu-workbench results export > {shlex.quote(word)}"
        raise UsageError(f"{word}: export prints to standard output; to write a file: {command}")


def _read_valid(
    database: Database, rows: Sequence[StoredRow], left_out: list[str]
) -> Iterator[StoredResult]:
    """Yield the readable and valid results, so that the export can be imported elsewhere."""
    for row in rows:
        try:
            stored = database.read_result(row)
            check_result(stored)
        except StoreError as error:
            left_out.append(str(error))
        except ImpossibleError as error:
            left_out.append(f"{row.id}: {error}")
        else:
            yield stored


def _import(options: ResultsOptions) -> int:
    files = []
    for name in options.words:
        try:
            files.append(read_file(Path(name)))
        except ExchangeError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            raise Failure(f"{name}: {describe_os_error(error)}") from error
    with open_store(writing=True) as database:
        for name, results in zip(options.words, files, strict=True):
            new = database.add(results)
            known = f", {len(results) - new} were stored already" if new < len(results) else ""
            print_line(f"{name}: {new} results were imported{known}")
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


SUBCOMMAND = Subcommand(ResultsOptions, add_options, perform)
