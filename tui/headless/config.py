"""``gpu-workbench config``: the settings, each with where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tui import settings
from tui.cli.resolve import resolve
from tui.headless.output import print_json
from tui.session import catalogue
from tui.session.preferences import usable
from tui.store.parameters import text_of
from tui.terminal.themes import with_theme

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments

NOT_SET = {
    "device": "not set: the first GPU that torch can use, else the CPU",
    "python": f"not set: the workbench's own, {sys.executable}",
}
BROUGHT = "of no workload of the catalogue; used where --workloads brings it"


def config(arguments: Arguments) -> int:
    """Print the settings; returns the exit code, which is 1 where a source of theirs is wrong."""
    if arguments.path_only:
        sys.stdout.write(f"{settings.path()}\n")
        return 0
    chosen, problems = with_theme(*resolve(arguments))
    problems = (*problems, *_bad_parameters(chosen))
    if arguments.json:
        print_json(plain(chosen, problems))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines(chosen)))
        for problem in problems:
            sys.stderr.write(f"gpu-workbench: {problem}\n")
    return 1 if problems else 0


def _bad_parameters(chosen: settings.Settings) -> Iterator[str]:
    known = {info.name: info for info in catalogue.read()}
    for workload, wanted in chosen.file.parameters.items():
        if workload in known:
            for error in usable(known[workload], wanted)[1]:
                yield f"{chosen.file.path}: [{settings.PARAMETERS}.{workload}] {error}"


def lines(chosen: settings.Settings) -> Iterator[str]:
    """A line for the file, one for each setting and one for each remembered parameter."""
    there = "" if chosen.file.path.exists() else " (not there: made when you change something)"
    yield f"file: {chosen.file.path}{there}"
    for item in chosen.chosen.values():
        shown = NOT_SET[item.name] if item.value is None else text_of(item.value)
        yield f"{item.name:8}  {shown}" + ("" if item.value is None else f"  [{item.source}]")
    known = {info.name for info in catalogue.read()}
    for workload, values in chosen.file.parameters.items():
        note = "" if workload in known else f"  ({BROUGHT})"
        for name, value in values.items():
            yield f"{settings.PARAMETERS}.{workload}.{name}  {text_of(value)}{note}"


def plain(chosen: settings.Settings, problems: tuple[str, ...]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "file": {"path": str(chosen.file.path), "exists": chosen.file.path.exists()},
        "settings": {
            item.name: {
                "value": item.value,
                "source": item.source,
                "variable": settings.BY_NAME[item.name].variable,
                "flag": settings.BY_NAME[item.name].flag,
            }
            for item in chosen.chosen.values()
        },
        "parameters": chosen.file.parameters,
        "problems": problems,
        "unavailable": {
            f"settings.{item.name}.value": NOT_SET[item.name]
            for item in chosen.chosen.values()
            if item.value is None
        },
    }
