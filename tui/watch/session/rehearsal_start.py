"""Start a rehearsal as the command line does, and find its run."""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass
from typing import IO

from tui.core.child.launch import own_command
from tui.kit.command_line.output import PROGRAM
from tui.watch.runs import runs
from tui.watch.runs.rehearsals import read_note
from tui.watch.runs.runs import StartedRun
from tui.watch.session.command_start import CommandError, split_command

CHECK_S = 0.2
"""Seconds between two checks whether the run has begun: the simulated GPU may be built first."""
NEWEST = 5
"""Newest runs to search for it, as other programs may start some meanwhile."""
MOST_ERROR_BYTES = 4096


class RehearsalError(Exception):
    """A rehearsal that cannot be started; the text is one line."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """A request for a rehearsal, as typed."""

    command: str = ""
    card: str = "h100"
    gpus: str = "1"
    """Number of such cards."""
    steps: str = "3"
    """Optimizer steps after which each process is ended; 0 for none."""

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of ``gpu-workbench`` for it.

        Raises:
            RehearsalError: the command is empty or has an open quotation, or no single card is
                named. All else is checked by the program that rehearses.
        """
        try:
            words = split_command(self.command)
        except CommandError as error:
            raise RehearsalError(str(error)) from error
        card = self.card.strip()
        if not card or card.lower() == "all":
            raise RehearsalError("give one card, such as h100, or a size, such as 24G")
        options = {"--gpu": card, "--gpus": self.gpus.strip(), "--steps": self.steps.strip()}
        # With an equals sign, argparse takes no value for an option.
        return ("rehearse", *(f"{name}={value}" for name, value in options.items()), "--", *words)


async def start_rehearsal(request: RehearsalRequest) -> StartedRun:
    """Start a rehearsal in a process of its own, which outlives this program, and return its run.

    Args:
        request: the typed request.

    Raises:
        RehearsalError: it cannot be started.
    """
    arguments = request.arguments()
    with tempfile.TemporaryFile() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *own_command("tui", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise RehearsalError(f"the rehearsal cannot be started: {error.strerror}") from error
        while True:
            has_ended = process.returncode is not None
            for run in (await asyncio.to_thread(runs.stored_runs))[:NEWEST]:
                note = read_note(run.folder)
                if note is not None and note.pid == process.pid:
                    return run
            if has_ended:
                raise RehearsalError(_read_message(errors) or "the rehearsal ended without a run")
            await asyncio.sleep(CHECK_S)


def _read_message(errors: IO[bytes]) -> str:
    """Return the last message on standard error; the program wraps its own to several lines."""
    end = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, end - MOST_ERROR_BYTES))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    own = [at for at, line in enumerate(lines) if line.startswith(f"{PROGRAM}: ")]
    message = lines[own[-1] if own else -1 :]
    return " ".join(" ".join(message).split()).removeprefix(f"{PROGRAM}: ")
