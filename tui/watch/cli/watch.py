"""``gpu-workbench watch``: PyTorch allocator memory of processes, and commands under the watch."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tui.core.text import secrets
from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.alarm import CommandAlarm
from tui.kit.command_line.options import Subcommand
from tui.kit.command_line.output import (
    WIDTH,
    Failure,
    UsageError,
    fit_to_terminal,
    print_json,
    print_line,
    print_notice,
    print_text,
)
from tui.kit.command_line.progress import run_to_exit
from tui.kit.lines import plain
from tui.watch.cli import launch
from tui.watch.cli.host_processes import HostProcessReport
from tui.watch.cli.options import WatchOptions, add_options, check
from tui.watch.cli.processes import ProcessReport, inject_agent
from tui.watch.runs import runs, start
from tui.watch.runs.agents import read_rank_stacks
from tui.watch.runs.run_summary import describe_left_run
from tui.watch.runs.runs import StartedRun
from tui.watch.views.rank_stacks import rank_stack_lines


def watch(options: WatchOptions) -> int:
    """Carry out ``watch``; returns the exit code, 1 if the requested figures may not be read.

    Raises:
        UsageError: the options contradict each other.
        Failure: the agent cannot be injected into the process.
    """
    if not options.dashes and not options.stacks and _is_command(options.command):
        if options.late_options:
            words = " ".join(secrets.command_line(options.command))
            raise UsageError(f"{words}: put -- before a command that has options")
        options = replace(options, dashes=True)
    check(options)
    if options.stacks:
        return print_stacks("".join(options.command), as_json=options.json)
    if options.launches:
        return _launch(options)
    if options.command:
        return _show(options)
    if options.names_hosts:
        return run_to_exit(HostProcessReport(options).run())
    if options.inject and options.pid is not None:
        inject_agent(options.pid, options.entries or 0)
    return run_to_exit(ProcessReport(options).run())


def print_stacks(name: str, *, as_json: bool) -> int:
    """Print the stacks of a run's processes.

    Args:
        name: name of its folder or a unique prefix; empty for the newest running run.
        as_json: print one object instead of lines.

    Returns:
        The exit code: 1 without a running process, or if a process does not answer.

    Raises:
        UsageError: there is no such run.
    """
    running = (run for run in runs.stored_runs() if run.is_running)
    run = _find_run(name) if name else next(running, None)
    if run is None:
        raise UsageError("--stacks: no run is active; gpu-workbench watch lists the stored runs")
    ranks, why = read_rank_stacks(run)
    if as_json:
        unavailable = {
            f"processes.{index}": rank.why_none for index, rank in enumerate(ranks) if rank.why_none
        }
        if why:
            unavailable["processes"] = why
        print_json({"folder": str(run.folder), "processes": ranks, "unavailable": unavailable})
    else:
        lines = rank_stack_lines(ranks, why, WIDTH)
        print_text(rows_of_text(plain(line).rstrip() for line in lines))
    return 0 if ranks and all(rank.stacks is not None for rank in ranks) else 1


def _is_command(words: Sequence[str]) -> bool:
    """Return whether words without dashes before them are a command, and no run, which has a digit.

    A command with options needs the dashes: before them, options are those of ``watch``.
    """
    if not words or words[0][:1].isdigit() or words[0] in _VERBS:
        return False
    return len(words) > 1 or shutil.which(words[0]) is not None


def _show(options: WatchOptions) -> int:
    name, *more = options.command
    if name in _VERBS and not more:
        action = {"rm": "remove", "keep": "protect"}[name]
        raise UsageError(f"watch {name}: name the run to {action}; gpu-workbench watch lists them")
    if name in _VERBS and len(more) == 1 and not options.prints:
        return _change_run(name, more[0])
    if more or not (options.reports_stored or not options.prints):
        words = " ".join(secrets.command_line(options.command))
        raise UsageError(
            f"{words}: give a command after --, or the name of one stored run, which takes "
            "--no-screen, --markdown or --json"
        )
    run = _find_run(name)
    if options.reports_stored:
        return _report_stored(options, run)
    instead = "add --no-screen, which prints its report"
    return options.open_run(lambda: run, instead, options.overrides)


def _report_stored(options: WatchOptions, run: StartedRun) -> int:
    """Print the report of a stored run as at its end.

    Raises:
        UsageError: it is still running, or two formats are requested.
    """
    if options.json and options.markdown:
        raise UsageError("--json and --markdown: give one of them")
    if run.is_running:
        raise UsageError(f"{run.folder.name} is still running, and has no report before its end")
    return run_to_exit(_print_outcome(options, launch.read_stored_run(run)))


def _find_run(name: str) -> StartedRun:
    """Return the stored run with this name, or the only one whose name starts with it.

    Raises:
        UsageError: there is none, or several.
    """
    try:
        return runs.find_run(name)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from error


_VERBS = ("rm", "keep")
"""Verbs before a run's name, which always begins with a digit."""


def _change_run(verb: str, name: str) -> int:
    """Remove a run, or mark it to be stored for good.

    Raises:
        UsageError: there is no such run, or it is still running.
        Failure: its folder cannot be changed.
    """
    try:
        run = runs.find_run(name)
        if verb == "rm":
            runs.remove(run)
            print_line(f"{run.folder.name} is removed")
        else:
            runs.protect(run)
            print_line(f"{run.folder.name} is stored until you remove it: watch rm {name}")
    except LookupError as error:
        raise UsageError(str(error.args[0])) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise Failure(f"{runs.folder() / name}: {why}; see who owns its files") from error
    return 0


def _launch(options: WatchOptions) -> int:
    """Run the command.

    Returns:
        Its exit code, or 128 plus the signal's number if a signal ended it; under the screen,
        which the command may outlive, the screen's exit code.

    Raises:
        Failure: the command cannot be started.
    """
    if options.env:
        print_text(rows_of_text(format_exports(runs.new_folder(), options.entries)))
        return 0
    if options.here:
        return _in_place(options)
    if not options.no_screen:
        return _under_the_screen(options)
    return run_to_exit(_without_a_screen(options))


SUBCOMMAND = Subcommand(WatchOptions, add_options, watch)


def format_exports(run: Path, entries: int | None) -> list[str]:
    """Return the environment variables of a run's command as shell ``export`` lines."""
    lines = []
    for name, value in start.variables(run, entries, {}).items():
        more = "${PYTHONPATH:+:$PYTHONPATH}" if name == "PYTHONPATH" else ""
        lines.append(f"export {name}={shlex.quote(value)}{more}")
    return lines


def _under_the_screen(options: WatchOptions) -> int:
    # The screen sets variables of its own, which the command must not get.
    environment = dict(os.environ)

    def begin() -> StartedRun:
        try:
            return start.begin(
                options.command, options.entries, environment, on_oom=options.on_oom
            )[0]
        except start.StartError as error:
            raise Failure(str(error), error.code) from error

    instead = "add --no-screen, which prints its output and its end; or --here"
    return options.open_run(begin, instead, options.overrides)


def _in_place(options: WatchOptions) -> int:
    run: StartedRun | None = None
    try:
        run = runs.new_run(options.command)
        runs.record_start(run, os.getpid())
    except OSError as error:
        print_notice(f"{runs.describe_folder_error(error)}; the command runs without the watch")
        if run is not None:
            runs.drop(run)
        run = None
    try:
        if run is None:
            os.execvp(options.command[0], list(options.command))
        start.replace_with(options.command, run.folder, options.entries)
    except OSError as error:
        if run is not None:
            runs.drop(run)
        reason, code = start.describe_start_error(options.command, error)
        raise Failure(reason, code) from error
    raise AssertionError("the command has taken the place of this program")


async def _without_a_screen(options: WatchOptions) -> int:
    shows = not (options.json or options.markdown)
    command = launch.RunWithoutScreen(
        options.command,
        options.entries,
        shows_output=shows,
        alarm=CommandAlarm(options.overrides),
        on_oom=options.on_oom,
    )
    try:
        outcome = await command.run()
    except launch.LeftRunningError as left:
        print_notice(describe_left_run(left.run))
        return 128 + left.number
    await _print_outcome(options, outcome)
    run = outcome.run
    if run.code is None and run.signal is None:
        return 1
    return 128 + run.signal if run.signal is not None else run.code or 0


async def _print_outcome(options: WatchOptions, outcome: launch.RunOutcome) -> int:
    """Print the report of a run that has ended; return 0."""
    if options.json:
        print_json(await launch.build_explained_report(outcome))
    elif options.markdown:
        print_text(rows_of_text(await launch.format_markdown(outcome)))
    else:
        print_text(fit_to_terminal(rows_of_text(await launch.format_text(outcome))))
    return 0
