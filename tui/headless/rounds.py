"""Rounds of runs for the ``run`` command, printed at their end and compared with others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.core.text.glyphs import rows_of_text
from tui.headless.catalogue import print_problems
from tui.headless.waiter import (
    Waiter,
    choose_devices,
    choose_interval,
    choose_workloads,
    describe_current_run,
    set_parameters,
)
from tui.kit.command_line.output import (
    Failure,
    Rows,
    UsageError,
    fit_to_terminal,
    not_known,
    print_json,
    print_line,
    print_notice,
    print_text,
    width,
)
from tui.kit.command_line.progress import ProgressLine
from tui.kit.command_line.values import python_at
from tui.kit.lines import plain
from tui.results.cli.store import Baseline, format_comparison, open_store
from tui.results.store.queries import compare_rows
from tui.results.store.recorder import ResultRecorder
from tui.results.store.selection import Selection
from tui.results.views.results import format_markdown
from tui.runs.session.session import Session
from tui.runs.state.events import FlagSet
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.views.queue import build_queue, queue_line
from tui.runs.views.result_text import encode_results, format_run, format_sweeps, format_warnings
from workloads.protocol.flag_words import parse_setting

if TYPE_CHECKING:
    from tui.headless.run import RunOptions
    from tui.results.store.compare import StoreComparison

FORMS = "python=PATH, a flag such as cudnn.benchmark=on, or a VARIABLE=value; several with commas"
TURNS = 4
"""Default turns of each side; so many sessions detect a shift of 5%."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_FLAG = re.compile(r"[a-z]\w*(\.\w+)+")


async def run_rounds(
    python: str, options: RunOptions, note_ooms: Callable[[RunsState], None]
) -> int:
    """Run everything for the requested number of rounds, and print the results.

    Args:
        python: path of the Python that runs the workloads.
        options: the options of the command.
        note_ooms: rings when a run has run out of memory.

    Returns:
        The exit code.
    """
    # Before any slow step, to report an empty selection at once.
    earlier = Baseline(options.against) if options.against else None
    rounds: list[Round] = []
    for number in range(1, options.rounds + 1):
        current = Round(python, options, number, note_ooms)
        rounds.append(current)
        await current.run()
        if current.ended_early:
            break
    problems = _print_problems(rounds)
    comparison = None
    if earlier is not None and not rounds[-1].ended_early:
        comparison = earlier.compare(
            [name for finished in rounds for name in finished.processes], problems
        )
    if options.json:
        states = [entry for finished in rounds for entry in finished.states]
        encoded = encode_results(rounds[-1].state, states)
        print_json({**encoded, "against": comparison} if comparison else encoded, "run")
    elif options.markdown:
        print_text(_format_markdown(rounds, problems), "run.md")
    elif comparison is not None and earlier is not None:
        print_text(earlier.text(comparison, width()), "against.txt")
    return _compute_exit_code(rounds, comparison)


async def run_interleaved(
    python: str,
    options: RunOptions,
    arms: tuple[InterleavedSide, InterleavedSide],
    note_ooms: Callable[[RunsState], None],
) -> int:
    """Run two settings alternately, and print their comparison.

    Args:
        python: path of the Python that runs the workloads, unless a side names its own.
        options: the options of the command.
        arms: the two settings.
        note_ooms: rings when a run has run out of memory.

    Returns:
        The exit code.
    """
    rounds: list[Round] = []
    count = options.runs or TURNS
    for number in range(1, 2 * count + 1):
        side = (number - 1) % 2
        if not options.json:
            turn = f"{'AB'[side]}: {arms[side].text}, turn {(number + 1) // 2} of {count}"
            print_line(turn)
        current = Round(arms[side].python or python, options, number, note_ooms, arms[side])
        rounds.append(current)
        await current.run()
        if current.ended_early:
            break
    problems = _print_problems(rounds)
    turns = (rounds[::2], rounds[1::2])
    comparison = None
    if not rounds[-1].ended_early:
        a, b = ([name for finished in side for name in finished.processes] for side in turns)
        comparison = compare_turns(a, b, problems)
    if options.json:
        sides = {
            letter: encode_results(
                side[-1].state, [entry for finished in side for entry in finished.states]
            )
            for letter, side in zip("ab", turns, strict=True)
            if side
        }
        # Two environments: one JSON object could not assign results to them.
        print_json(
            {"interleaved": list(options.interleave), "sides": sides, "compared": comparison}
        )
    elif comparison is not None:
        print_text(
            format_comparison(comparison, (arms[0].text, arms[1].text), width()), "interleave.txt"
        )
    return _compute_exit_code(rounds, comparison)


def _format_markdown(rounds: Sequence[Round], problems: Sequence[str]) -> str:
    """Return the stored results as ``results export --markdown`` does.

    Without all of them in the store, return the results as text, so that none is lost.

    Raises:
        Failure: the store cannot be read.
    """
    if problems:
        return "".join(
            format_run(finished.state, entry) for finished in rounds for entry in finished.states
        )
    processes = [name for finished in rounds for name in finished.processes]
    with open_store() as database:
        rows = database.read_rows(Selection(processes=tuple(processes))) if processes else []
        return rows_of_text(format_markdown(rows[::-1], database.read_facts()))


def _print_problems(rounds: Sequence[Round]) -> list[str]:
    """Print why results were not stored, and return these lines, each once."""
    problems = list(dict.fromkeys(problem for finished in rounds for problem in finished.problems))
    for problem in problems:
        print_notice(problem)
    return problems


def _compute_exit_code(rounds: Sequence[Round], comparison: StoreComparison | None) -> int:
    """Return 1 if a run failed, a file could not be read, or the second side is slower."""
    failed = any(entry.failed for finished in rounds for entry in finished.states)
    slower = comparison is not None and bool(comparison.slower)
    broken = any(finished.broken for finished in rounds)
    return rounds[-1].exit_code(1 if failed or slower or broken else 0)


class Round:
    """One execution of all requested runs, in its own runner.

    A comparison needs independent runs, and runs in one process share its memory layout.

    Args:
        python: path of the Python that runs the workloads.
        options: the options of the command.
        number: number of the round; 1 for the first.
        note_ooms: rings when a run has run out of memory.
        arm: the side of an interleaved run that the round belongs to.
    """

    def __init__(
        self,
        python: str,
        options: RunOptions,
        number: int,
        note_ooms: Callable[[RunsState], None],
        arm: InterleavedSide | None = None,
    ) -> None:
        self._recorder = ResultRecorder() if options.store else None
        self._arm = arm
        self._note_ooms = note_ooms
        self._session = Session(
            python,
            choose_interval(options.devices),
            options.files,
            [self._recorder] if self._recorder else [],
            variables=arm.variables if arm else None,
        )
        self._options = options
        self._number = number
        self._waiter, self._progress = Waiter(self._session), ProgressLine()
        self._prints_rows = not (options.json or options.markdown)
        self._printer = ResultPrinter(self.state, self._progress, rows=self._prints_rows)

    @property
    def state(self) -> RunsState:
        return self._session.state.runs

    @property
    def states(self) -> list[RunState]:
        """The runs, with ids that are unique among all rounds."""
        states = list(self.state.book.values())
        if self._number == 1:
            return states
        return [_add_round_to_id(state, self._number) for state in states]

    @property
    def problems(self) -> Sequence[str]:
        """Reasons why results were not stored."""
        return self._recorder.problems if self._recorder else ()

    @property
    def processes(self) -> Sequence[str]:
        """Names of the runners in the store."""
        return tuple(self._recorder.processes) if self._recorder else ()

    @property
    def broken(self) -> bool:
        """True if a workload file could not be read."""
        return self.state.hello is not None and bool(self.state.hello.problems)

    @property
    def ended_early(self) -> bool:
        """True if a signal or a closed standard output ended the round."""
        return self._waiter.signalled is not None or self._printer.reader_gone

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code of the signal that ended the round, else ``otherwise``."""
        return self._waiter.exit_code(otherwise)

    async def run(self) -> None:
        """Run everything and print the results.

        Raises:
            UsageError: a name or a value is invalid.
            Failure: the runs are not possible, or a result cannot be printed.
        """
        await self._session.start()
        try:
            if await self._waiter.ready(self._progress):
                await self._run_all()
            self._progress.clear()
        finally:
            await self._session.stop()
        if self._prints_rows:
            self._printer.finish(list(self.state.book.values()))

    async def _run_all(self) -> None:
        session, options, printer = self._session, self._options, self._printer
        first = self._number == 1
        if first:
            print_problems(self.state.hello)
        names = choose_workloads(
            self.state, options.names, options.groups, everything=options.everything
        )
        set_parameters(session, names, dict(options.parameters), sweeps=True)
        if self._arm is not None:
            self._arm.apply_flags(session)
        devices = choose_devices(session, options.devices)
        if first and not options.devices:
            await _print_skipped_gpus(session, self._waiter)
        session.run(names, devices, options.budget)

        def report() -> None:
            printer.print_ended()
            self._note_ooms(self.state)

        await self._waiter.until(lambda: not self.state.pending() or printer.reader_gone, report)
        self._note_ooms(self.state)
        if self.state.pending():
            await self._waiter.finish(self._progress)


def _add_round_to_id(entry: RunState, number: int) -> RunState:
    result = entry.result
    return replace(entry, result=result and replace(result, id=f"{result.id}.{number}"))


async def _print_skipped_gpus(session: Session, waiter: Waiter) -> None:
    """Print the GPUs that the run skips, if torch sees none of the driver's GPUs."""
    state = session.state
    if not await waiter.until(lambda: state.machine.sample is not None, lambda: None):
        return
    unseen = [view for view in state.machine.devices if view.nvml and not view.torch]
    if unseen and not any(view.torch for view in state.machine.devices if view.nvml):
        reason = unseen[0].unpaired or "torch does not see them"
        models = Counter(view.name for view in unseen)
        names = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in models.items())
        print_notice(f"not run on {names}: {reason}")


class ResultPrinter:
    """Prints each result at the end of its run, and shows the progress until then.

    Args:
        state: the state of the runs.
        progress: the line that shows the progress.
        rows: print the results; false if one JSON object follows instead.
    """

    def __init__(self, state: RunsState, progress: ProgressLine, *, rows: bool) -> None:
        self._state = state
        self._progress = progress
        self._prints = rows
        self._rows = Rows("run.txt")
        self._printed: set[str] = set()

    @property
    def reader_gone(self) -> bool:
        """True if standard output was closed, as by ``| head``."""
        return self._rows.reader_gone

    def print_ended(self) -> None:
        """Print the newly ended runs, and show the progress of the others."""
        self._print([entry for entry in self._state.book.values() if entry.ended])
        words = format_progress(self._state, self._progress.cells)
        self._progress.show_going_on(words, self._state.runner)

    def finish(self, states: Sequence[RunState]) -> None:
        """Print the remaining runs, and the sweeps.

        Args:
            states: the states of all runs.

        Raises:
            Failure: some results could not be printed; the message names the file with the rest.
        """
        self._print(states)
        if self._prints and len(states) > 1:
            self._rows.add(fit_to_terminal(format_warnings(self._state, states)))
        self._rows.add(fit_to_terminal(format_sweeps(self._state, states)))
        self._rows.end()

    def _print(self, states: Sequence[RunState]) -> None:
        # The warnings of several runs follow at their end, each cause once.
        alone = len(self._state.book) == 1
        for entry in states if self._prints else ():
            if entry.request.id not in self._printed:
                self._printed.add(entry.request.id)
                self._progress.clear()
                self._rows.add(fit_to_terminal(format_run(self._state, entry, warned=alone)))


def format_progress(state: RunsState, cells: int) -> str:
    """Format the progress of all runs: number done, a bar, the time left, the current run.

    Args:
        state: the state of the runs.
        cells: width of the line.
    """
    queue = build_queue(state)
    words = describe_current_run(state)
    if queue is None or queue.total < 2:
        return words
    return plain(queue_line(queue, cells, words)).strip()


def compare_turns(a: Iterable[str], b: Iterable[str], problems: Sequence[str]) -> StoreComparison:
    """Compare the stored results of both sides.

    Args:
        a: names of the runners of A in the store.
        b: names of the runners of B.
        problems: reasons why results were not stored.

    Raises:
        Failure: the store cannot be read, or some results were not stored.
    """
    if problems:
        raise Failure("--interleave: nothing is compared: not all results were stored")
    with open_store() as database:
        sides = [
            database.read_rows(Selection(processes=names)) if names else []
            for names in (tuple(a), tuple(b))
        ]
        return compare_rows(database, *sides)


# ---- the two sides of an interleaved run ----


@dataclass(frozen=True, slots=True)
class InterleavedSide:
    """The settings of one of the two sides."""

    text: str
    """The settings as typed."""
    python: str = ""
    """Path of a Python; empty for the Python of all runs."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def apply_flags(self, session: Session) -> None:
        """Set the flags for all runs queued later.

        Args:
            session: a session whose runner is ready.

        Raises:
            UsageError: torch does not have the flag here.
        """
        known = [flag.name for flag in session.state.runs.known_flags]
        for name, value in self.flags.items():
            if name not in known:
                raise UsageError(f"--interleave {self.text}: {not_known('flag', name, known)}")
            session.state.publish(FlagSet(name, value))


def parse_arm(text: str) -> InterleavedSide:
    """Parse one side of ``--interleave``.

    Args:
        text: ``NAME=VALUE`` pairs, separated by commas.

    Raises:
        UsageError: a part has an unknown form, or names no program.
    """
    python, flags, variables = "", {}, {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"--interleave {text}: give {FORMS}")
        if name == "python":
            python = python_at(value, "--interleave python")
        elif _FLAG.fullmatch(name) and (setting := parse_setting(name, value)) is not None:
            flags[name] = setting
        elif _VARIABLE.fullmatch(name) and "\0" not in value:
            variables[name] = value
        else:
            raise UsageError(f"--interleave {text}: {part.strip()}: give {FORMS}")
    return InterleavedSide(text, python, flags, variables)


def parse_arms(texts: Sequence[str]) -> tuple[InterleavedSide, InterleavedSide]:
    """Parse both sides.

    Raises:
        UsageError: as for :func:`parse_arm`, or both sides are the same.
    """
    a, b = map(parse_arm, texts)
    if (a.python, a.flags, a.variables) == (b.python, b.flags, b.variables):
        raise UsageError(f"--interleave {a.text} {b.text}: both sides are the same")
    return a, b
