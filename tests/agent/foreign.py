"""Whether a program does under the watch what it does without. ``python -m tests.agent.foreign``.

    python -m tests.agent.foreign [--mask REGEX]... [--record] -- python train.py ...

The program is run by itself, by ``watch --here`` and by ``watch --no-screen``, each in a copy of
the folder in which this is started. Both streams and the exit code have to be equal to the byte;
what a mask matches, such as times, is taken out of all of them and counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.agent.interpreters import QUIET
from tui.watch.runs.process_logs import process_logs_in

ROOT = Path(__file__).parents[2]
# Not by PYTHONPATH, which would be the program's as well.
PROGRAM = (
    f"import runpy, sys; sys.path[0] = {str(ROOT)!r}; runpy.run_module('tui', run_name='__main__')"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program's result: its exit code, and its output in files."""

    code: int
    out: bytes
    errors: bytes
    """Empty if both streams share a file."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A program's results by itself and under the watch."""

    plain: Outcome
    watched: Outcome
    masked: int
    """Number of mask matches removed from the program's own output."""
    agents: int
    """Processes with the agent in them."""
    steps: int
    """Number of their optimizer steps."""

    @property
    def equal(self) -> bool:
        """Return whether exit code and output are equal, to the byte."""
        return self.plain == self.watched

    def __str__(self) -> str:
        size = len(self.plain.out) + len(self.plain.errors)
        words = "equal" if self.equal else "DIFFERENT"
        return (
            f"{words}: exit code {self.plain.code} and {self.watched.code}, {size} bytes, "
            f"{self.masked} places masked; the agent in {self.agents}, steps {self.steps}"
        )


def _run(
    command: Sequence[str], folder: Path, variables: dict[str, str], *, one_file: bool
) -> Outcome:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if one_file else errors,
            check=False,
        )
        out.seek(0)
        errors.seek(0)
        return Outcome(done.returncode, out.read(), errors.read())


def compare(
    command: Sequence[str],
    folder: Path,
    how: str,
    masks: Sequence[str] = (),
    more: Sequence[str] = (),
) -> Compared:
    """Run a program twice, without the watch and with it.

    Args:
        command: the program's command.
        folder: copied for each of the two runs, as their working folder.
        how: ``--here`` or ``--no-screen``.
        masks: regular expressions of text that may differ.
        more: options of ``watch``.
    """
    outcomes, left = [], []
    masked = 0
    for watched in (False, True):
        with tempfile.TemporaryDirectory() as name:
            # The same path, since the program may print it.
            place, state = Path(name) / "place", Path(name) / "state"
            shutil.copytree(folder, place, symlinks=True)
            plain = {name: value for name, value in os.environ.items() if name not in QUIET}
            variables, words = plain, list(command)
            if watched:
                variables = plain | {"GPU_WORKBENCH_STATE": str(state)}
                words = [sys.executable, "-c", PROGRAM, "watch", *more, how, "--", *command]
            found = _run(words, place, variables, one_file=how == "--no-screen")
            if watched:
                (run,) = (state / "runs").iterdir()
                left = process_logs_in(run)
                if how == "--no-screen":
                    found = Outcome(found.code, (run / "output.log").read_bytes(), b"")
            streams = [found.out, found.errors]
            for mask in (re.escape(name), re.escape(str(state)), *masks):
                counted = [re.subn(mask.encode(), b"*", stream) for stream in streams]
                streams = [stream for stream, _ in counted]
                masked += 0 if watched else sum(count for _, count in counted)
            outcomes.append(Outcome(found.code, streams[0], streams[1]))
    steps = sum(each.steps or 0 for each in left)
    return Compared(outcomes[0], outcomes[1], masked, len(left), steps)


def main() -> int:
    """Compare and print; return 1 for a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mask", action="append", default=[], metavar="REGEX")
    parser.add_argument("--record", action="store_true", help="with torch's memory history")
    parser.add_argument("command", nargs="+")
    chosen = parser.parse_args()
    more = ["--record"] if chosen.record else []
    failed = False
    for how in ("--here", "--no-screen"):
        found = compare(chosen.command, Path.cwd(), how, chosen.mask, more)
        print(f"{how}: {found}", flush=True)
        failed |= not found.equal
        if not found.equal:
            for outcome in (found.plain, found.watched):
                sys.stdout.buffer.write(outcome.out[-3000:] + outcome.errors[-3000:] + b"\n----\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
