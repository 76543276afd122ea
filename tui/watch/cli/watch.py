"""``gpu-workbench watch``: PyTorch allocator memory of processes, and commands under the watch."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path

from tui.core.text import secrets
from tui.core.text.glyphs import rows_of_text
from tui.devices.host_options import add_connection
from tui.kit.command_line.alarm import CommandAlarm
from tui.kit.command_line.options import Parser, Subcommand, add_screen
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
from tui.watch.cli.processes import (
    ProcessReport,
    WatchOptions,
    inject_agent,
)
from tui.watch.runs import runs, start
from tui.watch.runs.agents import read_rank_stacks
from tui.watch.runs.run_summary import describe_left_run
from tui.watch.runs.runs import StartedRun
from tui.watch.views.rank_stacks import rank_stack_lines
from workloads.agent import ENTRIES


def watch(options: WatchOptions) -> int:
    """Carry out ``watch``; returns the exit code, 1 if the requested figures may not be read.

    Raises:
        UsageError: the options contradict each other.
        Failure: the agent cannot be injected into the process.
    """
    _check(options)
    if options.on_oom is not None:
        _check_on_oom(options)
    if options.stacks:
        return _print_stacks(options)
    if options.command and not options.dashes:
        return _show(options)
    if options.command or options.starts_otherwise:
        return _launch(options)
    if options.names_hosts:
        return run_to_exit(HostProcessReport(options).run())
    if options.inject and options.pid is not None:
        inject_agent(options.pid, options.entries or 0)
    return run_to_exit(ProcessReport(options).run())


def _check(options: WatchOptions) -> None:
    """Check that the options do not contradict each other.

    Raises:
        UsageError: they contradict each other.
    """
    _check_hosts(options)
    if options.dashes and not options.command:
        raise UsageError("--: give a command after it, as in -- python train.py")
    if options.inject and options.pid is None:
        raise UsageError("--inject: give the process with --pid")
    for name, flag in (("theme", "--theme"), ("mouse", "--no-mouse")):
        if name in options.overrides and not options.draws:
            raise UsageError(f"{flag}: for a run that is shown on the screen")
    if options.command or options.starts_otherwise:
        return
    if options.json and options.jsonl:
        raise UsageError("--json and --jsonl: give one of them")
    if options.no_children and options.pid is None:
        raise UsageError("--no-children: give the process with --pid")
    if options.every is not None and not options.lasts:
        raise UsageError("--every: give --pid PID, --for S or --jsonl too")


def _check_hosts(options: WatchOptions) -> None:
    if not options.names_hosts:
        if options.transport or options.host_pythons:
            raise UsageError("--transport and --host-python need --host or --slurm")
        return
    refused = {
        "--inject": options.inject,
        "--stacks": options.stacks,
        "--on-oom": options.on_oom is not None,
        "a command or a run": bool(options.command) or options.dashes,
        "--no-screen, --here, --env, --markdown or --record": options.starts_otherwise,
    }
    for option, is_given in refused.items():
        if is_given:
            raise UsageError(f"{option}: for processes of this machine; leave out --host")


def _check_on_oom(options: WatchOptions) -> None:
    if not (options.command and options.dashes):
        raise UsageError("--on-oom: give the command that is watched after --")
    if not (options.on_oom or "").strip():
        raise UsageError("--on-oom: give a command for the shell")
    if options.here or options.env:
        option = "--here" if options.here else "--env"
        raise UsageError(f"--on-oom and {option}: no program is left that could run it")


def _print_stacks(options: WatchOptions) -> int:
    others = options.starts_otherwise or options.lasts or options.every is not None
    others = others or options.pid is not None or options.no_children
    if options.dashes or len(options.command) > 1 or others:
        raise UsageError(
            "--stacks: give the name of one run, or none, and no other option than --json"
        )
    return print_stacks("".join(options.command), as_json=options.json)


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
        unavailable = {f"processes.{rank.pid}": rank.why_none for rank in ranks if rank.why_none}
        if why:
            unavailable["processes"] = why
        print_json({"folder": str(run.folder), "processes": ranks, "unavailable": unavailable})
    else:
        lines = rank_stack_lines(ranks, why, WIDTH)
        print_text(rows_of_text(plain(line).rstrip() for line in lines))
    return 0 if ranks and all(rank.stacks is not None for rank in ranks) else 1


def _show(options: WatchOptions) -> int:
    name, *more = options.command
    if name in _VERBS and len(more) == 1 and not options.prints:
        return _change_run(name, more[0])
    if more or options.prints:
        words = " ".join(secrets.command_line(options.command))
        raise UsageError(f"{words}: give a command after --, or the name of one stored run alone")
    run = _find_run(name)
    return options.open_run(lambda: run, f"read {run.folder}", options.overrides)


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
        UsageError: the options contradict each other.
        Failure: the command cannot be started.
    """
    _check_launch(options)
    if options.env:
        print_text(rows_of_text(format_exports(runs.new_folder(), options.entries)))
        return 0
    if options.here:
        return _in_place(options)
    if not options.no_screen:
        return _under_the_screen(options)
    return run_to_exit(_without_a_screen(options))


def _check_launch(options: WatchOptions) -> None:
    if options.pid is not None or options.no_children or options.lasts or options.every:
        raise UsageError("--pid and its options are for a running process, not for a command")
    prints = "--json" if options.json else "--markdown" if options.markdown else ""
    if options.env:
        if options.command or options.here or options.no_screen:
            raise UsageError("--env prints variables to export and takes no command")
        if prints:
            raise UsageError("--env prints shell lines: leave out --json and --markdown")
        return
    if not options.command:
        option = "--markdown" if options.markdown else "--record"
        option = "--here" if options.here else "--no-screen" if options.no_screen else option
        raise UsageError(f"{option}: give the command after --, as in -- python train.py")
    if options.here and options.no_screen:
        raise UsageError("--here and --no-screen: give one of them")
    if options.here and prints:
        raise UsageError("--here: the command takes this program's place; print with --no-screen")
    if options.json and options.markdown:
        raise UsageError("--json and --markdown: give one of them")
    if prints and not options.no_screen:
        raise UsageError(f"{prints}: printed without a screen; add --no-screen")


def _parse_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{text}: give seconds, above 0")
    return value


def _parse_interval(text: str) -> float:
    value = _parse_seconds(text)
    if value < 0.05:
        raise UsageError(f"--every {text}: at least 0.05 s")
    return value


def _parse_pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise UsageError(f"--pid {text}: give the number of a process")
    return int(text)


def _add_options(parser: Parser) -> None:
    add_screen(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, at the end")
    parser.add_argument(
        "--host",
        metavar="A,B",
        help="hosts to watch (default: this machine)",
    )
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="python3")
    parser.add_argument(
        "--pid", type=_parse_pid, metavar="N", help="watch this process and its children"
    )
    parser.add_argument("--no-children", action="store_true", help="leave out its children")
    parser.add_argument(
        "--inject",
        action="store_true",
        help="inject the agent (Python 3.14 or later)",
    )
    parser.add_argument(
        "--jsonl", action="store_true", help="print one JSON object per line, until stopped"
    )
    parser.add_argument(
        "--for", dest="seconds", type=_parse_seconds, metavar="S", help="watch for S seconds"
    )
    parser.add_argument(
        "--every",
        type=_parse_interval,
        metavar="S",
        help="print every S seconds (default: 1)",
    )
    parser.add_argument(
        "--no-screen",
        action="store_true",
        help="print the command's output, its end, and why it ran out of memory",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the command's report as Markdown"
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="become the command: same pid, terminal and exit code",
    )
    parser.add_argument(
        "--env",
        action="store_true",
        help="print variables for a command started elsewhere",
    )
    parser.add_argument(
        "--on-oom",
        metavar="CMD",
        help="shell command to run at the first OOM, with the run's name as $1; its output is in "
        "the run's on-oom.log",
    )
    parser.add_argument(
        "--stacks",
        action="store_true",
        help="print the ranks' Python stacks, of RUN or the newest live run",
    )
    parser.add_argument(
        "--record",
        dest="entries",
        type=entries_of,
        nargs="?",
        const=ENTRIES,
        metavar="ENTRIES",
        help=f"record torch's memory history (default: {ENTRIES} entries)",
    )
    parser.add_argument(
        "command",
        nargs="*",
        metavar="RUN | rm RUN | keep RUN | -- COMMAND",
        help="open, remove (rm) or protect (keep) a stored run, by the start of its name; or run "
        "and watch a command",
    )


SUBCOMMAND = Subcommand(WatchOptions, _add_options, watch)


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
            raise Failure(str(error)) from error

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
        raise Failure(f"{options.command[0]}: {error.strerror}") from error
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
    if options.json:
        print_json(await launch.build_explained_report(outcome))
    elif options.markdown:
        print_text(rows_of_text(await launch.format_markdown(outcome)))
    else:
        print_text(fit_to_terminal(rows_of_text(await launch.format_text(outcome))))
    run = outcome.run
    if run.code is None and run.signal is None:
        return 1
    return 128 + run.signal if run.signal is not None else run.code or 0


def entries_of(text: str) -> int:
    """Return the number given with ``--record=ENTRIES``.

    Raises:
        UsageError: it is not a valid number.
    """
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 8 and int(text) > 0):
        raise UsageError(f"--record={text}: give a number of entries, such as {ENTRIES}")
    return int(text)
