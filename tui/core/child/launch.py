"""Start the process of a child. No asyncio: the program does this before it imports its screens."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workloads import ENTRY

if TYPE_CHECKING:
    Launched = subprocess.Popen[bytes]
else:
    Launched = subprocess.Popen

FOLDER = "/"
"""The working folder of a child that opens no file of the user's: no disk is busy because of it,
and a relative folder on ``PYTHONPATH`` leads it nowhere."""


def own_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that calls ``main`` of a module of this program in a new process.

    It finds the packages that this process has found, also if other packages have their names.

    Args:
        module: name of the module, or of a package that has a ``__main__``.
        arguments: the rest of its ``sys.argv``.
    """
    return (sys.executable, ENTRY, module, *arguments)


def too_many_files(error: OSError) -> str | None:
    """Return the message for a reached limit of open files; ``None`` for another error."""
    if error.errno == errno.ENFILE:
        return "this machine has too many open files: end the process with the most (lsof)"
    if error.errno != errno.EMFILE:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"too many open files for a limit of {limit}: raise it, as with ulimit -n 1024"


def launch(
    argv: Sequence[str],
    variables: Mapping[str, str] | None = None,
    folder: str | None = None,
    inherit: Sequence[int] = (),
) -> Launched:
    """Start a process in its own session, without a descriptor of the terminal.

    A :class:`tui.core.child.process.ChildProcess` receives the launched process and reads from it.
    If the program ends before that, the child's standard input is closed, and it ends.

    Args:
        argv: program and arguments.
        variables: environment variables on top of ours.
        folder: its working directory; ``None`` for this process's.
        inherit: descriptors that it inherits under their own numbers.

    Raises:
        OSError: it cannot be started; the text says why.
    """
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(variables or {})},
        cwd=folder,
        start_new_session=True,
        pass_fds=tuple(inherit),
    )
