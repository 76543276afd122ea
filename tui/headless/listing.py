"""``gpu-workbench list``: the catalogue. The runner says it before it imports torch."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

from tui.children import Child, Garbage
from tui.headless.output import Failure, print_json, run_to_exit
from tui.parameters import allowed, text_of
from workloads import protocol
from workloads.inventory import WorkloadInfo
from workloads.protocol import Event

if TYPE_CHECKING:
    from tui.arguments import Arguments


def listing(arguments: Arguments) -> int:
    """Print the workloads by group; returns the exit code."""

    async def work() -> int:
        infos = await catalogue(arguments.python)
        if arguments.json:
            print_json({"workloads": [_plain(info) for info in infos]})
        else:
            sys.stdout.write(text(infos))
        return 0

    return run_to_exit(work())


async def catalogue(python: str) -> tuple[WorkloadInfo, ...]:
    """The workloads of a Python's runner.

    Raises:
        Failure: it does not start, or says something else.
    """
    from tui.keepers import runner_command

    child: Child[Event] = Child(runner_command(python), protocol.EVENTS)
    try:
        await child.start()
        async for event in child.events():
            if isinstance(event, protocol.Hello):
                return event.workloads
            if isinstance(event, Garbage):
                raise Failure(f"{python}: the runner says {event.line!r}: {event.reason}")
    except OSError as error:
        raise Failure(f"{python}: {error.strerror}; give --python the path of a Python") from error
    finally:
        child.kill()
        ended = await child.ended()
    last = "; ".join(child.stderr.last(1))
    raise Failure(f"{python}: the runner ended before it said what it can run: {ended} {last}")


def _plain(info: WorkloadInfo) -> dict[str, object]:
    parameters = {
        item.name: {
            "default": item.default,
            "choices": list(item.choices) or None,
            "minimum": item.minimum,
            "maximum": item.maximum,
            "about": item.about,
        }
        for item in info.parameters
    }
    return {
        "name": info.name,
        "group": info.group,
        "title": info.title,
        "about": info.about,
        "parameters": parameters,
        "needs": list(info.needs),
        "devices": list(info.devices),
    }


def text(infos: tuple[WorkloadInfo, ...]) -> str:
    """The catalogue for people: name, title, and each parameter with what it may be."""
    lines = []
    for group, members in itertools.groupby(infos, key=lambda info: info.group):
        lines.append(group)
        for info in members:
            needs = f"   needs {', '.join(info.needs)}" if info.needs else ""
            lines.append(f"  {info.name:<16} {info.title}{needs}")
            lines += [
                f"      {item.name} = {text_of(item.default)}   {item.about} ({allowed(item)})"
                for item in info.parameters
            ]
    return "\n".join(lines) + "\n"
