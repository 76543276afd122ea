"""Start a typed command under the watch, as ``gpu-workbench watch`` does."""

from __future__ import annotations

import asyncio
import os
import re
import shlex

from tui.kit.terminal import inherited_environment
from tui.watch.runs import start
from tui.watch.runs.runs import StartedRun

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
"""Start of a word that sets a variable, as before a command of a shell."""


class CommandError(Exception):
    """A command that cannot be started; the text is one line."""


def split_command(text: str) -> list[str]:
    """Return the words of a command as typed in a shell; variables before it become ``env``'s.

    Raises:
        CommandError: it is empty or has an open quotation.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"the command cannot be split into words: {error}") from error
    if not words:
        raise CommandError("give a command, such as python train.py --batch 64")
    if _ASSIGNMENT.match(words[0]):
        words = ["env", *words]
    return [os.path.expanduser(word) if word.startswith("~") else word for word in words]  # noqa: PTH111 (not a path alone)


async def start_command(text: str) -> StartedRun:
    """Start a command, which does not end with this program, and return its run.

    Args:
        text: the command as typed; its output goes to the run's folder.

    Raises:
        CommandError: it cannot be started.
    """
    words = split_command(text)
    try:
        run, _process = await asyncio.to_thread(start.begin, words, None, inherited_environment())
    except start.StartError as error:
        raise CommandError(str(error)) from error
    return run
