"""Settings of one start: the command line's over the environment's over the file's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tui import settings
from tui.cli import values
from tui.cli.python_choice import PythonChoice, unnamed
from tui.cli.streams import say
from tui.settings import Settings, Value


def resolve(given: Mapping[str, Value]) -> tuple[Settings, tuple[str, ...]]:
    """Read the file and put the sources together.

    Args:
        given: what the command line sets, by the names of ``tui.settings``.

    Returns:
        The settings, and a line for each thing that is wrong with the file or a variable.
    """
    file = settings.read(settings.path())
    chosen, problems = settings.choose(file, os.environ, given)
    return chosen, (*file.problems, *problems)


def python_of(chosen: Settings) -> PythonChoice:
    """The Python that runs the workloads: that of the settings, else :func:`unnamed`.

    Raises:
        UsageError: there is no program. Another one is not taken in its place: its torch is not
            the one to be measured.
    """
    python = chosen.chosen["python"]
    if python.value is None:
        return unnamed()
    path = values.python_at(str(python.value), f"{python.source}: python")
    return PythonChoice(path, python.source)


def python_to_use(given: Mapping[str, Value]) -> PythonChoice:
    """All that a command without a screen takes of the settings; what is wrong is said on stderr.

    Args:
        given: as :func:`resolve` takes it.

    Returns:
        The Python that runs the workloads.

    Raises:
        UsageError: there is no such program.
    """
    chosen, problems = resolve(given)
    for problem in problems:
        say(problem)
    return python_of(chosen)
