"""``gpu-workbench watch -- COMMAND``: how a command is run under the watch, and what is printed."""

from __future__ import annotations

import signal
import time
from typing import Any

from tui.cli.errors import Failure, UsageError
from tui.cli.output import print_json, run_to_exit
from tui.cli.streams import print_text
from tui.text import numbers as text
from tui.text.clean import rows_of_text
from tui.watch import launch, runs
from tui.watch.runs import Run
from workloads.agent import ENTRIES
from workloads.protocol.frozen import frozen


@frozen
class Launch:
    """How a command is run."""

    command: tuple[str, ...] = ()
    entries: int | None = None
    """Of torch's memory history; ``None`` for no history."""
    no_screen: bool = False
    here: bool = False
    env: bool = False
    json: bool = False
    markdown: bool = False

    def check(self) -> None:
        """Whether the options go together.

        Raises:
            UsageError: they do not.
        """
        if self.env and (self.command or self.here or self.no_screen):
            raise UsageError("--env: prints what to export; it takes no command")
        if self.env and (self.json or self.markdown):
            raise UsageError("--env: prints lines of a shell; no --json, no --markdown")
        if not self.env and not self.command:
            given = "--here" if self.here else "--no-screen" if self.no_screen else "--record"
            given = "--markdown" if self.markdown and given == "--record" else given
            raise UsageError(f"{given}: give the command after --, as in -- python train.py")
        if self.env:
            return
        if self.here and self.no_screen:
            raise UsageError("--here and --no-screen: give one of them")
        if not self.here and not self.no_screen:
            raise UsageError(
                f"-- {self.command[0]}: say how it is run: --no-screen, with what became of it "
                "after its output, or --here, in the place of this program"
            )
        if self.here and (self.json or self.markdown):
            raise UsageError(
                "--here: the command takes this program's place; print with --no-screen"
            )
        if self.json and self.markdown:
            raise UsageError("--json and --markdown: give one of them")


def carry_out(options: Launch) -> int:
    """Run the command; returns its exit code, and 128 and its number where a signal ended it.

    Raises:
        UsageError: options that do not go together.
        Failure: it cannot be started.
    """
    options.check()
    if options.env:
        print_text(rows_of_text(launch.as_exports(runs.new_folder(), options.entries)))
        return 0
    if options.here:
        return _in_place(options)
    return run_to_exit(_without_a_screen(options))


def _in_place(options: Launch) -> int:
    try:
        run = runs.begin(options.command)
        runs.started(run, runs.own_pid())
    except OSError as error:
        raise Failure(f"no folder for the run: {error}") from error
    try:
        launch.replace_with(options.command, run.folder, options.entries)
    except OSError as error:
        runs.drop(run)
        raise Failure(f"{options.command[0]}: {error.strerror}") from error
    raise AssertionError("the command has taken the place of this program")


async def _without_a_screen(options: Launch) -> int:
    # The doors to what samples and reads, which --here and --env do without.
    from tui.cli import watched_run_output as output
    from tui.cli.watched_run import RunWithoutScreen

    shows = not (options.json or options.markdown)
    outcome = await RunWithoutScreen(options.command, options.entries, shows_output=shows).work()
    if options.json:
        print_json(output.as_object(outcome))
    elif options.markdown:
        print_text(rows_of_text(await output.as_markdown(outcome)))
    else:
        print_text(rows_of_text(await output.as_text(outcome)))
    run = outcome.run
    return 128 + run.signal if run.signal is not None else run.code or 0


def entries_of(given: str) -> int:
    """The number of ``--record=ENTRIES``.

    Raises:
        UsageError: it is none.
    """
    if not (given.isascii() and given.isdigit() and 0 < len(given) <= 8 and int(given) > 0):
        raise UsageError(f"--record={given}: give a number of entries, such as {ENTRIES}")
    return int(given)


# ---- the runs that are kept ----


def kept_lines() -> list[str]:
    """A line for each run that is kept, the newest first; nothing where there is none."""
    found = runs.kept()
    return [f"kept runs, in {runs.folder()}:", *map(_kept_line, found)] if found else []


def _kept_line(run: Run) -> str:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began))
    size = text.size(runs.size_of(run.folder))
    snapshots = text.count(len(list(run.folder.glob("*.pickle"))), "snapshot")
    command = " ".join(run.command) or "by --env"
    return f"  {run.folder.name}  {began}  {_end(run)}  {snapshots}  {size}  {command}"


def _end(run: Run) -> str:
    if run.signal is not None:
        return f"ended by {signal.Signals(run.signal).name}"
    if run.code is not None:
        return f"exit code {run.code}"
    return "goes on" if run.goes_on else "its end was not seen"


def kept_as_plain() -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "folder": str(run.folder),
            "command": list(run.command),
            "cwd": run.cwd,
            "began": run.began,
            "ended": run.ended,
            "goes_on": run.goes_on,
            "exit": {"code": run.code, "signal": run.signal},
            "snapshots": sorted(str(path) for path in run.folder.glob("*.pickle")),
        }
        for run in runs.kept()
    ]
