"""``gpu-workbench watch -- COMMAND``: how a command is run under the watch, and what is printed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from tui.cli.errors import Failure, UsageError
from tui.cli.output import print_json, run_to_exit
from tui.cli.streams import print_text, say
from tui.text.glyphs import rows_of_text
from tui.watch import runs
from tui.watch.runs import Run
from workloads.agent import ENTRIES
from workloads.protocol.frozen import frozen

if TYPE_CHECKING:
    from tui.settings import Value


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
    given: Mapping[str, Value] = field(default_factory=dict)
    """Settings of the workbench, for a command under the screen."""

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
        if self.here and (self.json or self.markdown):
            raise UsageError(
                "--here: the command takes this program's place; print with --no-screen"
            )
        if self.json and self.markdown:
            raise UsageError("--json and --markdown: give one of them")
        if (self.json or self.markdown) and not self.no_screen:
            given = "--json" if self.json else "--markdown"
            raise UsageError(f"{given}: printed without a screen; add --no-screen")


def carry_out(options: Launch) -> int:
    """Run the command.

    Returns:
        Its exit code, and 128 and its number where a signal ended it; under the screen, which it
        may outlive, that of the screen.

    Raises:
        UsageError: options that do not go together.
        Failure: it cannot be started.
    """
    options.check()
    if options.env:
        print_text(rows_of_text(runs.as_exports(runs.new_folder(), options.entries)))
        return 0
    if options.here:
        return _in_place(options)
    if not options.no_screen:
        return _under_the_screen(options)
    return run_to_exit(_without_a_screen(options))


def _under_the_screen(options: Launch) -> int:
    # The screen sets variables of its own, which are not the command's.
    environment = dict(os.environ)

    def begin() -> Run:
        try:
            return runs.begin(options.command, options.entries, environment)[0]
        except runs.StartError as error:
            raise Failure(str(error)) from error

    instead = "add --no-screen: its output, then what became of it; or --here"
    return _on_screen(begin, instead, options.given)


def show(name: str, given: Mapping[str, Value]) -> int:
    """Open a kept run on the screen; returns the screen's exit code.

    Args:
        name: of its folder, or the beginning of that where no other begins so.
        given: settings of the workbench.

    Raises:
        UsageError: there is no such run, or no terminal.
    """
    try:
        run = runs.named(name)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from error
    return _on_screen(lambda: run, f"read {run.folder}", given)


def _on_screen(run: Callable[[], Run], instead: str, given: Mapping[str, Value]) -> int:
    # The door to the screens, of which a command without one reads nothing.
    from tui.cli.workbench import WorkbenchOptions, check_terminal, open_workbench

    check_terminal(instead)
    try:
        return open_workbench(WorkbenchOptions(given, run=run))
    except Failure as failure:
        say(str(failure))
        return 1


def _in_place(options: Launch) -> int:
    try:
        run = runs.new_run(options.command)
        runs.started(run, runs.own_pid())
    except OSError as error:
        raise Failure(runs.no_folder_words(error)) from error
    try:
        runs.replace_with(options.command, run.folder, options.entries)
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
