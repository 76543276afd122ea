"""``gpu-workbench list``: the catalogue, which the runner sends before it imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.core.text.glyphs import rows_of_text
from tui.headless.catalogue import CatalogueOptions, read_catalogue, unknown_name
from tui.kit.command_line.options import Parser, Subcommand, add_common
from tui.kit.command_line.output import fit_to_terminal, print_json, print_text
from tui.kit.command_line.progress import run_to_exit
from tui.runs.state.parameters import describe_allowed, format_value
from workloads.protocol.groups import QUESTIONS, format_heading
from workloads.protocol.messages import Hello
from workloads.protocol.results import WorkloadInfo

HINT = "gpu-workbench list NAME shows the parameters of a workload or of a group."


@dataclass(frozen=True, slots=True)
class ListOptions(CatalogueOptions):
    """The part of the catalogue to list."""

    names: Sequence[str] = ()
    """The workloads, and their groups, that are listed with their parameters; all if empty."""


def add_options(parser: Parser) -> None:
    """Add the workloads and groups whose parameters are listed."""
    add_common(parser)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="show the parameters of this workload or group"
    )


def list_catalogue(options: ListOptions) -> int:
    """Print the workloads by group; return the exit code, 1 if a file could not be read.

    Raises:
        UsageError: neither a workload nor a group has this name.
        Failure: likewise, but an unreadable file may declare it; or the catalogue cannot be read.
    """
    python = options.python

    async def work() -> int:
        hello = await read_catalogue(python, options.files)
        infos = find_named(hello, options.names)
        if options.json:
            print_json({"workloads": [_encode_workload(info) for info in infos]})
        else:
            text = format_catalogue(infos, parameters=bool(options.names))
            print_text(fit_to_terminal(text if options.names else f"{text}\n{HINT}"))
        return 1 if hello.problems else 0

    return run_to_exit(work())


def find_named(hello: Hello, names: Sequence[str]) -> tuple[WorkloadInfo, ...]:
    """Return the workloads of these names and groups, in the catalogue's order; all without names.

    Raises:
        UsageError: neither a workload nor a group has this name.
        Failure: likewise, but an unreadable file may declare it.
    """
    known = {word: None for info in hello.workloads for word in (info.group, info.name)}
    for name in names:
        if name not in known:
            raise unknown_name(hello, "workload or group", name, list(known))
    return tuple(
        info for info in hello.workloads if not names or {info.name, info.group} & {*names}
    )


def _encode_workload(info: WorkloadInfo) -> dict[str, object]:
    parameters = {
        item.name: {
            "default": item.default,
            "choices": list(item.choices) or None,
            "minimum": item.minimum,
            "maximum": item.maximum,
            "auto": item.auto,
            "about": item.about,
        }
        for item in info.parameters
    }
    return {
        "name": info.name,
        "group": info.group,
        "group_question": QUESTIONS.get(info.group),
        "title": info.title,
        "about": info.about,
        "parameters": parameters,
        "needs": list(info.needs),
        "devices": list(info.devices),
    }


def format_catalogue(infos: Sequence[WorkloadInfo], *, parameters: bool) -> str:
    """Format the workloads, name and title; the groups in the order of their first appearance.

    Args:
        infos: the workloads.
        parameters: add each parameter with its default and its allowed values.
    """
    groups: dict[str, list[WorkloadInfo]] = {}
    for info in infos:
        groups.setdefault(info.group, []).append(info)
    lines = []
    longest = max((len(info.name) for info in infos), default=0)
    for group, members in groups.items():
        lines.append(format_heading(group))
        for info in members:
            needs = f"   needs {', '.join(info.needs)}" if info.needs else ""
            lines.append(f"  {info.name:<{longest}}  {info.title}{needs}")
            lines += [
                f"      {item.name} = {format_value(item.default, auto=item.auto)}   "
                f"{item.about} ({describe_allowed(item)})"
                for item in (info.parameters if parameters else ())
            ]
    return rows_of_text(lines)


SUBCOMMAND = Subcommand(ListOptions, add_options, list_catalogue)
