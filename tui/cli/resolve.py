"""Settings of one start: the command line's over the environment's over the file's."""

from __future__ import annotations

import os

from tui import settings
from tui.cli import values
from tui.cli.arguments import Arguments


def resolve(arguments: Arguments) -> tuple[settings.Settings, tuple[str, ...]]:
    """Read the file and put the sources together.

    Returns:
        The settings, and a line for each thing that is wrong with the file or a variable.
    """
    file = settings.read(settings.path())
    chosen, problems = settings.choose(file, os.environ, arguments.given)
    return chosen, (*file.problems, *problems)


def take_python(arguments: Arguments, chosen: settings.Settings) -> None:
    """Run the workloads in the Python that the settings name.

    Raises:
        UsageError: there is no program. Another one is not taken in its place: its torch is not
            the one to be measured.
    """
    python = chosen.chosen["python"]
    if python.value is not None:
        arguments.python = values.python_at(str(python.value), f"{python.source}: python")
