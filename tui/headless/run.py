"""``gpu-workbench run``: time workloads and print the results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.devices.host_options import add_connection
from tui.headless.on_hosts import find_run_hosts, run_on_hosts
from tui.headless.rounds import FORMS, TURNS, parse_arms, run_interleaved, run_rounds
from tui.hosts.choice import HostChoice
from tui.kit.command_line.alarm import CommandAlarm
from tui.kit.command_line.options import (
    Subcommand,
    add_budget,
    add_common,
    add_devices,
    add_no_store,
    add_parameters,
)
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.progress import run_to_exit
from tui.kit.command_line.values import python_to_use, whole_number
from tui.results.store.statistics import FEWEST
from tui.runs.state.alarms import RunAlarms
from tui.runs.state.state import RunsState
from workloads.protocol.messages import Budget

if TYPE_CHECKING:
    from tui.core.settings import Value
    from tui.kit.command_line.options import Parser


@dataclass(frozen=True, slots=True)
class RunOptions(HostChoice):
    """The workloads, devices and duration of a run."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    files: Sequence[str] = ()
    """Absolute paths of the workload files of the user."""
    json: bool = False
    markdown: bool = False
    """Print the stored results as a Markdown table."""
    names: Sequence[str] = ()
    groups: Sequence[str] = ()
    everything: bool = False
    devices: Sequence[str] = ()
    """Torch devices; empty for the CPU and the first GPU."""
    parameters: Sequence[tuple[str, str]] = ()
    """Parameter names with values as typed; the last value of a name counts."""
    budget: Budget = "normal"
    runs: int | None = None
    """Number of rounds; ``None`` for one, or for as many as a comparison needs."""
    store: bool = True
    """Store the results."""
    against: str = ""
    """Selection of earlier results to compare with; empty for none."""
    interleave: Sequence[str] = ()
    """Two settings to alternate; empty for none."""
    together: bool = False
    """All hosts run at the same time."""

    @property
    def rounds(self) -> int:
        """The number of times to run everything."""
        return self.runs or (FEWEST if self.against else 1)


def add_options(parser: Parser) -> None:
    """Add the options for workloads, devices, parameters and durations."""
    add_common(parser)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="workloads; gpu-workbench list shows them"
    )
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        metavar="G",
        help="run all workloads of a group; repeatable",
    )
    parser.add_argument("--all", dest="everything", action="store_true", help="run every workload")
    add_devices(
        parser,
        "D",
        "cpu, cuda:0, …, mps, or all GPUs; repeatable (default: the CPU and the first GPU)",
    )
    add_parameters(parser, sweeps=True)
    add_budget(parser)
    parser.add_argument(
        "--runs",
        type=whole_number("--runs"),
        metavar="N",
        help="repeat N times, each in a new process (default: 1; 3 with --against)",
    )
    parser.add_argument(
        "--against",
        metavar="A",
        help="compare with stored results (a tag, an id, before:DATE, …); exit code 1 if slower",
    )
    parser.add_argument(
        "--interleave",
        nargs=2,
        metavar=("A", "B"),
        help=f"alternate two settings, --runs turns each (default: {TURNS}): {FORMS}; exit code 1"
        " if B is slower",
    )
    parser.add_argument(
        "--host", metavar="A,B", help="hosts: ssh names, docker:CONTAINER or kubectl:POD"
    )
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="the first that has torch")
    parser.add_argument("--together", action="store_true", help="run on all hosts at the same time")
    add_no_store(parser)


def run(options: RunOptions) -> int:
    """Run the workloads; return the exit code.

    The code is 1 if a run failed, or if a workload is slower than in the earlier results.

    Raises:
        UsageError: the options name nothing, or contradict each other.
    """
    _check(options)
    alarm, run_alarms = CommandAlarm(options.overrides), RunAlarms(time.time)

    def note_ooms(runs: RunsState) -> None:
        alarm.ring(run_alarms.of_ooms(runs))

    if options.names_hosts:
        return alarm.end("run", run_to_exit(run_on_hosts(options, find_run_hosts(options))))
    python = python_to_use(options.overrides).path
    if options.interleave:
        arms = parse_arms(options.interleave)
        return alarm.end("run", run_to_exit(run_interleaved(python, options, arms, note_ooms)))
    return alarm.end("run", run_to_exit(run_rounds(python, options, note_ooms)))


def _check(options: RunOptions) -> None:
    """Check that the options name something and do not contradict each other.

    Raises:
        UsageError: they name nothing, or contradict each other.
    """
    if options.everything and (options.names or options.groups):
        raise UsageError("run: --all runs everything; leave out the names and groups")
    if not (options.names or options.groups or options.everything):
        raise UsageError("run: name workloads, or give --group or --all; see the list command")
    if options.runs is not None and options.runs < 1:
        raise UsageError(f"--runs {options.runs}: at least 1")
    if options.markdown:
        _check_markdown(options)
    if options.names_hosts:
        return
    if options.together or options.transport or options.host_pythons:
        raise UsageError("--together, --transport and --host-python need --host or --slurm")
    if options.against and not options.store:
        raise UsageError("--against compares stored results: leave out --no-store")
    if options.interleave and (options.against or not options.store):
        other = "--against" if options.against else "--no-store"
        raise UsageError(f"--interleave needs stored results: leave out {other}")


def _check_markdown(options: RunOptions) -> None:
    """Check that ``--markdown`` has one list of stored results to print.

    Raises:
        UsageError: another option stores none, or prints something else.
    """
    if options.json:
        raise UsageError("--json and --markdown: give one of them")
    if not options.store:
        raise UsageError("--markdown prints stored results: leave out --no-store")
    others = {
        "--host and --slurm": options.names_hosts,
        "--against": bool(options.against),
        "--interleave": bool(options.interleave),
    }
    for option, given in others.items():
        if given:
            raise UsageError(
                f"--markdown prints the runs alone: leave out {option}, or use"
                " gpu-workbench results export --markdown"
            )


SUBCOMMAND = Subcommand(RunOptions, add_options, run)
