"""``gpu-workbench run``: time workloads and print what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.core.text import numbers as fmt
from tui.kit.command_line.options import (
    Subcommand,
    add_budget,
    add_common,
    add_devices,
    add_no_store,
    add_parameters,
)
from tui.kit.command_line.output import Rows, UsageError, print_json, print_line, print_text, say
from tui.kit.command_line.progress import ProgressLine, run_to_exit
from tui.kit.command_line.values import python_to_use
from tui.results.cli.store import Earlier, comparison_text
from tui.results.store.keeper import ResultRecorder
from tui.runs.cli.headless import (
    INTERVAL_S,
    Waiter,
    chosen,
    devices_to_use,
    print_problems,
    set_parameters,
)
from tui.runs.cli.interleave import FORMS, TURNS, InterleavedSide, compare_turns, parse_arms
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from workloads.protocol.messages import Budget

if TYPE_CHECKING:
    from tui.core.settings import Value
    from tui.kit.command_line.options import Parser


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run, where and for how long."""

    given: Mapping[str, Value] = field(default_factory=dict)
    files: Sequence[str] = ()
    """Of workloads that the user brings; absolute paths."""
    json: bool = False
    names: Sequence[str] = ()
    groups: Sequence[str] = ()
    everything: bool = False
    devices: Sequence[str] = ()
    """Torch's names; empty for the CPU and the first GPU."""
    parameters: Sequence[tuple[str, str]] = ()
    """Names and the values as they were typed, of which the last of a name counts."""
    budget: Budget = "normal"
    runs: int | None = None
    """How often everything is run; ``None`` for once, or as often as a comparison needs."""
    store: bool = True
    """Keep the results for later."""
    against: str = ""
    """What selects earlier results to hold these against; empty for none."""
    interleave: Sequence[str] = ()
    """Two settings that take turns; empty for none."""

    @property
    def runs_wanted(self) -> int:
        """How often everything is run."""
        if self.runs is not None or not self.against:
            return self.runs or 1
        # The door to the statistics, which a plain run does without.
        from tui.results.store.statistics import FEWEST

        return FEWEST


def add_options(parser: Parser) -> None:
    """Add the workloads, their devices and parameters, and the time for each."""
    add_common(parser)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="workloads; the list command shows them"
    )
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        metavar="G",
        help="all workloads of a group; repeat for more groups",
    )
    parser.add_argument("--all", dest="everything", action="store_true", help="every workload")
    add_devices(
        parser, "D", "cpu, cuda:0, …, mps; repeat for more (default: the CPU and the first GPU)"
    )
    add_parameters(parser)
    add_budget(parser)
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help="repeat all runs N times, each time in a new process (default: 1; 3 with --against)",
    )
    parser.add_argument(
        "--against",
        metavar="A",
        help="compare with stored results: a tag, an id, before:DATE, … as in "
        "results compare; exit code 1 if something is slower",
    )
    parser.add_argument(
        "--interleave",
        nargs=2,
        metavar=("A", "B"),
        help=f"alternate two settings, --runs turns each (default: {TURNS}), and compare them:"
        f" {FORMS}; exit code 1 if B is slower",
    )
    add_no_store(parser)


def run(options: RunOptions) -> int:
    """Run what was asked for; returns the exit code.

    It is 1 if a run failed, or if something is slower than what it is held against.

    Raises:
        UsageError: nothing is named, or what is named cannot be run.
    """
    python = python_to_use(options.given).path
    if options.everything and (options.names or options.groups):
        raise UsageError("run: --all runs everything; leave out the names and groups")
    if not (options.names or options.groups or options.everything):
        raise UsageError("run: name workloads, or give --group or --all; see the list command")
    if options.runs is not None and options.runs < 1:
        raise UsageError(f"--runs {options.runs}: at least 1")
    if options.against and not options.store:
        raise UsageError("--against holds kept results against each other: leave out --no-store")
    if options.interleave:
        if options.against or not options.store:
            other = "--against" if options.against else "--no-store"
            raise UsageError(f"--interleave compares what it keeps: leave out {other}")
        return run_to_exit(_interleave(python, options, parse_arms(options.interleave)))
    return run_to_exit(_run(python, options))


async def _run(python: str, options: RunOptions) -> int:
    # Before all that takes time: a name that selects nothing is told at once.
    earlier = Earlier(options.against) if options.against else None
    # The door to the views, which bring Rich's table of characters.
    from tui.kit.command_line.output import width
    from tui.runs.views.result_text import results_as_json

    rounds: list[Round] = []
    for number in range(1, options.runs_wanted + 1):
        one = Round(python, options, number)
        rounds.append(one)
        await one.run()
        if one.ended_early:
            break
    states = [entry for one in rounds for entry in one.states]
    problems = list(dict.fromkeys(problem for one in rounds for problem in one.problems))
    for problem in problems:
        say(problem)
    found = None
    if earlier is not None and not rounds[-1].ended_early:
        found = earlier.compared([name for one in rounds for name in one.processes], problems)
    if options.json:
        plain = results_as_json(rounds[-1].state, states)
        print_json({**plain, "against": found} if found else plain, "run")
    elif found is not None and earlier is not None:
        print_text(earlier.text(found, width()), "against.txt")
    failed = any(entry.result is not None and entry.result.status == "failed" for entry in states)
    slower = found is not None and bool(found.slower)
    return rounds[-1].exit_code(1 if failed or slower or any(one.broken for one in rounds) else 0)


async def _interleave(
    python: str, options: RunOptions, arms: tuple[InterleavedSide, InterleavedSide]
) -> int:
    # The door to the views, as above.
    from tui.kit.command_line.output import width
    from tui.runs.views.result_text import results_as_json

    turns: tuple[list[Round], list[Round]] = ([], [])
    wanted = options.runs or TURNS
    for number in range(1, 2 * wanted + 1):
        side = (number - 1) % 2
        if not options.json:
            turn = f"{'AB'[side]}: {arms[side].text}, turn {(number + 1) // 2} of {wanted}"
            print_line(turn)
        one = Round(arms[side].python or python, options, number, arms[side])
        turns[side].append(one)
        await one.run()
        if one.ended_early:
            break
    rounds = [*turns[0], *turns[1]]
    problems = list(dict.fromkeys(problem for one in rounds for problem in one.problems))
    for problem in problems:
        say(problem)
    found = None
    if not one.ended_early:
        a, b = ([name for each in side for name in each.processes] for side in turns)
        found = compare_turns(a, b, problems)
    if options.json:
        sides = {
            letter: results_as_json(
                side[-1].state, [entry for each in side for entry in each.states]
            )
            for letter, side in zip("ab", turns, strict=True)
            if side
        }
        # Two environments: no single object of a run could say which result is of which.
        print_json({"interleaved": list(options.interleave), "sides": sides, "compared": found})
    elif found is not None:
        print_text(comparison_text(found, (arms[0].text, arms[1].text), width()), "interleave.txt")
    states = [entry for each in rounds for entry in each.states]
    failed = any(entry.result is not None and entry.result.status == "failed" for entry in states)
    slower = found is not None and bool(found.slower)
    return one.exit_code(1 if failed or slower or any(each.broken for each in rounds) else 0)


class Round:
    """Everything that was asked for, once, in a runner of its own.

    Runs that are held against others are to be independent of each other, and those of one process
    share what that process has by chance.

    Args:
        python: that runs the workloads.
        options: what to run.
        number: of the round; 1 for the first.
        arm: what it is run with beside the options.
    """

    def __init__(
        self, python: str, options: RunOptions, number: int, arm: InterleavedSide | None = None
    ) -> None:
        # The monitor tells under which clocks a GPU ran; beside the CPU it would be in the way.
        cpu_only = set(options.devices) == {"cpu"}
        interval = None if cpu_only else INTERVAL_S
        self._keeper = ResultRecorder() if options.store else None
        self._arm = arm
        self._session = Session(
            python,
            interval,
            options.files,
            [self._keeper] if self._keeper else [],
            variables=arm.variables if arm else None,
        )
        self._options = options
        self._number = number
        self._waiter, self._progress = Waiter(self._session), ProgressLine()
        self._told = ResultPrinter(self.state, self._progress, rows=not options.json)

    @property
    def state(self) -> RunsState:
        return self._session.state.runs

    @property
    def states(self) -> list[RunState]:
        """The runs, with ids that no other round has."""
        states = list(self.state.book.values())
        return states if self._number == 1 else [_numbered(one, self._number) for one in states]

    @property
    def problems(self) -> Sequence[str]:
        """Why results were not kept."""
        return self._keeper.problems if self._keeper else ()

    @property
    def processes(self) -> Sequence[str]:
        """What the runners are called among the results."""
        return tuple(self._keeper.processes) if self._keeper else ()

    @property
    def broken(self) -> bool:
        """A file of workloads could not be read."""
        return self.state.hello is not None and bool(self.state.hello.problems)

    @property
    def ended_early(self) -> bool:
        """It was told to end, or nobody reads what it finds."""
        return self._waiter.signalled is not None or self._told.to_nobody

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code: that of the signal that ended it, if one did."""
        return self._waiter.exit_code(otherwise)

    async def run(self) -> None:
        """Run it and print what comes out.

        Raises:
            UsageError: what is named cannot be run.
            Failure: the same, or it could not be printed.
        """
        await self._session.start()
        try:
            if await self._waiter.ready(self._progress):
                await self._run_all()
            self._progress.clear()
        finally:
            await self._session.stop()
        if not self._options.json:
            self._told.end(list(self.state.book.values()))

    async def _run_all(self) -> None:
        session, options, told = self._session, self._options, self._told
        first = self._number == 1
        if first:
            print_problems(self.state.hello)
        names = chosen(self.state, options.names, options.groups, everything=options.everything)
        set_parameters(session, names, dict(options.parameters), sweeps=True)
        if self._arm is not None:
            self._arm.apply_flags(session)
        devices = devices_to_use(session, options.devices)
        if first and not options.devices:
            await _print_left_out(session, self._waiter)
        session.run(names, devices, options.budget)
        await self._waiter.until(lambda: not self.state.pending() or told.to_nobody, told.tell)
        if self.state.pending():
            await self._waiter.finish(self._progress)


def _numbered(entry: RunState, number: int) -> RunState:
    result = entry.result
    return replace(entry, result=result and replace(result, id=f"{result.id}.{number}"))


async def _print_left_out(session: Session, waiter: Waiter) -> None:
    """Print a line where torch does not see some GPUs and no device is named."""
    state = session.state
    if not await waiter.until(lambda: state.machine.sample is not None, lambda: None):
        return
    unseen = [view for view in state.machine.devices if view.nvml and not view.torch]
    if unseen and not any(view.torch for view in state.machine.devices if view.nvml):
        reason = unseen[0].unpaired or "torch does not see them"
        models = Counter(view.name for view in unseen)
        names = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in models.items())
        say(f"not run on {names}: {reason}")


class ResultPrinter:
    """Prints each result when its run has ended, and says meanwhile how far the runs are.

    Args:
        state: of the runs.
        progress: where that is said.
        rows: print the results; not where they follow as one object.
    """

    def __init__(self, state: RunsState, progress: ProgressLine, *, rows: bool) -> None:
        self._state = state
        self._progress = progress
        self._wanted = rows
        self._rows = Rows("run.txt")
        self._printed: set[str] = set()

    @property
    def to_nobody(self) -> bool:
        """Who would read the results has gone."""
        return self._rows.reader_gone

    def tell(self) -> None:
        """Print what has ended since, and say how far the runs are."""
        self._print([entry for entry in self._state.book.values() if entry.ended])
        words = how_far(self._state, self._progress.cells)
        self._progress.show_going_on(words, self._state.runner)

    def end(self, states: Sequence[RunState]) -> None:
        """Print what is left, and the sweeps.

        Args:
            states: of all runs.

        Raises:
            Failure: not all could be printed; says where it is saved.
        """
        from tui.runs.views.result_text import sweeps_text

        self._print(states)
        self._rows.add(sweeps_text(self._state, states))
        self._rows.end()

    def _print(self, states: Sequence[RunState]) -> None:
        from tui.runs.views.result_text import state_text

        for entry in states if self._wanted else ():
            if entry.request.id not in self._printed:
                self._printed.add(entry.request.id)
                self._progress.clear()
                self._rows.add(state_text(self._state, entry))


def how_far(state: RunsState, cells: int) -> str:
    """Of several runs, how many are done, a bar and about what time is left; then what runs now."""
    from tui.kit.lines import plain
    from tui.runs.views.queue import queue, queue_line

    found = queue(state)
    words = going_on(state)
    if found is None or found.wanted < 2:
        return words
    return plain(queue_line(found, cells, words)).strip()


def going_on(state: RunsState) -> str:
    """Return the running workload, its progress, and its first findings."""
    states = state.book.values()
    now = next((entry for entry in states if entry.progress and not entry.ended), None)
    if now is None or now.progress is None:
        return f"waiting for the runner ({state.runner.status})"
    progress = now.progress
    parts = [f"{now.request.workload} on {now.request.device}", progress.phase]
    if progress.blocks:
        parts.append(f"block {progress.blocks}")
    if progress.estimate_s is not None:
        parts.append(fmt.seconds(progress.estimate_s))
    if progress.half_width is not None:
        parts.append(fmt.spread(progress.half_width))
    return "  ".join(parts)


SUBCOMMAND = Subcommand(
    "Time workloads on the CPU and the GPUs.", RunOptions, add_options, run, place=50
)
