"""The options of ``gpu-workbench results``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.results.store.selection import FORMS

if TYPE_CHECKING:
    from tui.kit.command_line.options import Parser

_SELECTS = (
    f"{FORMS}; several at once with commas; box= is a machine's name, or what --host named it"
)
SHOWN = 50
"""Default number of results in a list."""


@dataclass(frozen=True, slots=True)
class ResultsOptions:
    """The action and its results."""

    verb: str = "list"
    words: Sequence[str] = ()
    """Ids, selections or files, depending on the verb."""
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

    listed = verb("list", "list results, the newest first (the default)")
    _add_filter(listed)
    _add_list(listed)
    shown = verb("show", "show everything about one result")
    shown.add_argument("words", nargs=1, metavar="ID", help="the result's id, or its first digits")
    _add_json(shown)
    tagged = verb("tag", "tag results with a name")
    tagged.add_argument(
        "words",
        nargs="+",
        metavar="ID",
        help="which results (id, tag, box=…, …), then the tag's name",
    )
    deleted = verb("delete", "delete results")
    deleted.add_argument(
        "words", nargs="+", metavar="ID", help="which results: an id, a tag, box=…, …"
    )
    pruned = verb("prune", "delete old results")
    pruned.add_argument(
        "--older",
        required=True,
        metavar="T",
        help="delete results older than this, such as 90d or 2026-01-31",
    )
    compared = verb("compare", "compare two sets of results: is B faster, slower or the same?")
    compared.add_argument("words", action="append", metavar="A", help=_SELECTS)
    compared.add_argument("words", action="append", metavar="B", help="the other set, likewise")
    compared.add_argument(
        "--workload", dest="of_workload", metavar="NAME", help="compare only this workload"
    )
    _add_json(compared)
    exported = verb("export", "print results for another machine, or as a table for an issue")
    _add_filter(exported)
    exported.add_argument("words", nargs="*", metavar="ID", help=_SELECTS)
    exported.add_argument("--markdown", action="store_true", help="print a Markdown table")
    exported.add_argument(
        "--redact",
        dest="without_names",
        action="store_true",
        help="leave out the names of users, machines and GPUs",
    )
    imported = verb("import", "import results from files written by export or run --json")
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
    parser.add_argument("--limit", type=int, metavar="N", help=f"show N results (default: {SHOWN})")
    _add_json(parser)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
