"""``gpu-workbench config``: the settings, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tui.core import settings, state_folder
from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.options import Subcommand, add_files, add_python, add_settings
from tui.kit.command_line.output import (
    fit_to_terminal,
    print_json,
    print_line,
    print_notice,
    print_text,
)
from tui.kit.command_line.values import resolve, unnamed, with_theme
from tui.runs.state.parameters import format_value, replace_invalid

if TYPE_CHECKING:
    from tui.kit.command_line.options import Parser
    from workloads.protocol.results import Setting

BROUGHT = "not in the catalogue; used if --workloads adds it"


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """Settings from the command line itself, and the output format."""

    overrides: Mapping[str, settings.Value] = field(default_factory=dict)
    json: bool = False
    path_only: bool = False
    """Print only the path of the file."""


def add_options(parser: Parser) -> None:
    """Add the options that choose and format settings."""
    add_python(parser)
    add_files(parser)
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--path",
        dest="path_only",
        action="store_true",
        help="print only the path of the settings file",
    )


def config(options: ConfigOptions) -> int:
    """Print the settings; returns the exit code, 1 if one of their sources has an error.

    Raises:
        UsageError: the command line names an unknown theme.
    """
    if options.path_only:
        print_line(str(settings.path()))
        return 0
    chosen, problems = with_theme(*resolve(options.overrides))
    problems = (*problems, *_bad_parameters(chosen))
    if options.json:
        print_json(plain(chosen, problems))
    else:
        print_text(fit_to_terminal(rows_of_text(lines(chosen))))
        for problem in problems:
            print_notice(problem)
    return 1 if problems else 0


def _bad_parameters(chosen: settings.Settings) -> Iterator[str]:
    known = {info.name: info for info in state_folder.catalogue()}
    for workload, chosen_values in chosen.file.parameters.items():
        if workload in known:
            for error in replace_invalid(known[workload], chosen_values)[1]:
                yield f"{chosen.file.path}: [{settings.PARAMETERS}.{workload}] {error}"


def _not_set(name: str) -> str:
    """Return the text for a setting that is not set."""
    if name == "python":
        python = unnamed()
        return f"not set: {python.path}, {python.why}"
    return "not set: the first GPU that torch can use, else the CPU"


def _format(name: str, value: Setting) -> str:
    """Format the value of a setting as its file has it."""
    if settings.is_size(name) and isinstance(value, int):
        return settings.format_size(value)
    return format_value(value)


def lines(chosen: settings.Settings) -> Iterator[str]:
    """Yield a line for the file, for each setting and for each remembered parameter."""
    suffix = "" if chosen.file.path.exists() else " (missing; created on the first change)"
    yield f"file: {chosen.file.path}{suffix}"
    width = max(map(len, chosen.chosen))
    for item in chosen.chosen.values():
        shown = _not_set(item.name) if item.value is None else _format(item.name, item.value)
        source = "" if item.value is None else f"  [{item.source}]"
        yield f"{item.name:{width}}  {shown}{source}"
    known = {info.name for info in state_folder.catalogue()}
    for workload, values in chosen.file.parameters.items():
        note = "" if workload in known else f"  ({BROUGHT})"
        for name, value in values.items():
            yield f"{settings.PARAMETERS}.{workload}.{name}  {format_value(value)}{note}"


def plain(chosen: settings.Settings, problems: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings as plain data, for ``--json``."""
    return {
        "file": {"path": str(chosen.file.path), "exists": chosen.file.path.exists()},
        "settings": {
            item.name: {
                "value": item.value,
                "source": item.source,
                "variable": settings.BY_NAME[item.name].variable,
                "flag": settings.BY_NAME[item.name].flag or None,
            }
            for item in chosen.chosen.values()
        },
        "parameters": chosen.file.parameters,
        "problems": problems,
        "unavailable": {
            f"settings.{item.name}.value": _not_set(item.name)
            for item in chosen.chosen.values()
            if item.value is None
        },
    }


SUBCOMMAND = Subcommand(ConfigOptions, add_options, config)
