"""The catalogue of a new runner, which sends it before it imports torch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.core.child.launch import too_many_files
from tui.core.child.process import ChildProcess, NoAnswerError, first_answer
from tui.core.child.runner import runner_command
from tui.kit.command_line.output import Failure, UsageError, not_known, print_notice
from tui.kit.command_line.progress import ProgressLine
from tui.kit.command_line.values import python_to_use
from tui.runs.session.silence import SILENT_S, describe_file_import
from workloads.protocol import messages
from workloads.protocol.messages import Event

if TYPE_CHECKING:
    from tui.core.settings import Value
    from workloads.protocol.results import WorkloadInfo

FEW_MEMBERS = 4
"""Most workloads of a group to name in an error."""


@dataclass(frozen=True, slots=True)
class CatalogueOptions:
    """The source of the catalogue, and the output format of a command that uses it."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    files: Sequence[str] = ()
    """Absolute paths of the workload files of the user."""
    json: bool = False

    @property
    def python(self) -> str:
        """Path of the Python that runs the workloads."""
        return python_to_use(self.overrides).path


async def read_catalogue(python: str, files: Sequence[str] = ()) -> messages.Hello:
    """Return the catalogue of a Python's runner; print the problems with the user's files.

    Args:
        python: path of the Python that runs the workloads.
        files: the workload files of the user.

    Raises:
        Failure: the runner does not start, or sends an unexpected message.
    """
    child: ChildProcess[Event] = ChildProcess(runner_command(python, files), messages.EVENTS)
    progress = ProgressLine()
    reporting = asyncio.create_task(_report_silence(files, progress))
    try:
        hello = await first_answer(child, (messages.Hello,))
    except NoAnswerError as error:
        raise Failure(f"{python}: the runner {error}") from error
    except OSError as error:
        if too_many_files(error):
            raise
        raise Failure(f"{python}: {error.strerror}; give --python the path of a Python") from error
    finally:
        reporting.cancel()
        progress.clear()
    print_problems(hello)
    return hello


def print_problems(hello: messages.Hello | None) -> None:
    """Print a line on stderr for each problem with the user's workload files."""
    for problem in hello.problems if hello else ():
        print_notice(problem)


def unknown_name(
    hello: messages.Hello | None, kind: str, name: str, known: Sequence[str]
) -> UsageError | Failure:
    """Return the error for a name that the catalogue does not contain.

    It is a :class:`Failure` if the name may be declared in a file that could not be read.

    Args:
        hello: the catalogue, and the problems with the user's files.
        kind: the kind of the named thing, such as ``workload``.
        name: the name, as typed.
        known: the names in the catalogue.
    """
    error = Failure if hello is not None and hello.problems else UsageError
    return error(not_known(kind, name, known, "gpu-workbench list"))


def unknown_workload(
    hello: messages.Hello | None, name: str, catalogue: Sequence[WorkloadInfo]
) -> UsageError | Failure:
    """Return the error for a name that no workload has; for a group, with its first workloads.

    It is a :class:`Failure` if the workload may be declared in a file that could not be read.

    Args:
        hello: the catalogue, and the problems with the user's files.
        name: the name, as typed.
        catalogue: the workloads.
    """
    members = [info.name for info in catalogue if info.group == name]
    if not members:
        return unknown_name(hello, "workload", name, [info.name for info in catalogue])
    further = ", …" if len(members) > FEW_MEMBERS else ""
    names = ", ".join(members[:FEW_MEMBERS])
    return UsageError(
        f"{name} is a group: name one of {names}{further}; run --group {name} runs all"
    )


async def _report_silence(files: Sequence[str], progress: ProgressLine) -> None:
    """Report that the new runner is still silent, until the task is cancelled."""
    started = time.monotonic()
    while files:
        waited = time.monotonic() - started
        if waited > SILENT_S:
            description = describe_file_import(files, waited)
            progress.show_silence(f"{description.reason}; {description.advice}")
        await asyncio.sleep(max(1.0, SILENT_S - waited))
