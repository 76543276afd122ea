"""``gpu-workbench run``: time workloads and print what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tui.cli.errors import UsageError
from tui.cli.options import add_budget, add_common, add_devices, add_parameters
from tui.cli.output import ProgressLine, print_json, run_to_exit
from tui.cli.resolve import python_to_use
from tui.cli.selection import INTERVAL_S, chosen, devices_to_use, set_parameters
from tui.cli.streams import Rows, say
from tui.cli.subcommand import Subcommand
from tui.cli.wait import Waiter, say_problems
from tui.session.session import Session
from tui.state.runs import RunState
from tui.state.store import Store
from tui.text import numbers as fmt
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import Budget

if TYPE_CHECKING:
    from tui.cli.options import Parser
    from tui.settings import Value


@frozen
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


def add_options(parser: Parser) -> None:
    """The workloads, their devices and parameters, and how long they are timed."""
    add_common(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads, see the list command")
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        metavar="G",
        help="all workloads of a group, see the list command; again for more",
    )
    parser.add_argument("--all", dest="everything", action="store_true", help="every workload")
    add_devices(
        parser, "D", "cpu, cuda:0, …, mps; again for more (default: the CPU and the first GPU)"
    )
    add_parameters(parser)
    add_budget(parser)


def run(options: RunOptions) -> int:
    """Run what was asked for; returns the exit code, 1 if a run failed.

    Raises:
        UsageError: nothing is named, or what is named cannot be run.
    """
    python = python_to_use(options.given).path
    if options.everything and (options.names or options.groups):
        raise UsageError("run: --all runs everything; leave out the names and groups")
    if not (options.names or options.groups or options.everything):
        raise UsageError("run: name workloads, or give --group or --all; see the list command")
    return run_to_exit(_run(python, options))


async def _run(python: str, options: RunOptions) -> int:
    # The door to the views, which bring Rich's table of characters.
    from tui.cli.run_output import as_json

    # The monitor tells under which clocks a GPU ran; on the CPU alone it would only be in the way.
    cpu_only = set(options.devices) == {"cpu"}
    session = Session(python, None if cpu_only else INTERVAL_S, options.files)
    waiter, progress = Waiter(session), ProgressLine()
    told = Told(session.store, progress, rows=not options.json)
    await session.start()
    try:
        if await waiter.ready(progress):
            say_problems(session.store.hello)
            names = chosen(
                session.store, options.names, options.groups, everything=options.everything
            )
            set_parameters(session, names, dict(options.parameters), sweeps=True)
            devices = devices_to_use(session, options.devices)
            if not options.devices:
                await _say_what_is_left_out(session, waiter)
            session.run(names, devices, options.budget)
            await waiter.until(lambda: not session.store.pending() or told.to_nobody, told.tell)
            if session.store.pending():
                await waiter.finish(progress)
        progress.clear()
    finally:
        await session.stop()
    states = list(session.store.runs.values())
    if options.json:
        print_json(as_json(session.store, states), "run")
    else:
        told.end(states)
    failed = any(state.result is not None and state.result.status == "failed" for state in states)
    broken = session.store.hello is not None and bool(session.store.hello.problems)
    return waiter.exit_code(1 if failed or broken else 0)


async def _say_what_is_left_out(session: Session, waiter: Waiter) -> None:
    """A line where there are GPUs that torch does not see; for a run that names no device."""
    store = session.store
    if not await waiter.until(lambda: store.sample is not None, lambda: None):
        return
    unseen = [view for view in store.devices if view.nvml and not view.torch]
    if unseen and not any(view.torch for view in store.devices if view.nvml):
        reason = unseen[0].unpaired or "torch does not see them"
        models = Counter(view.name for view in unseen)
        names = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in models.items())
        say(f"not run on {names}: {reason}")


class Told:
    """Prints each result when its run has ended, and says meanwhile how far the runs are.

    Args:
        store: that knows the runs.
        progress: where that is said.
        rows: print the results; not where they follow as one object.
    """

    def __init__(self, store: Store, progress: ProgressLine, *, rows: bool) -> None:
        self._store = store
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
        self._print([state for state in self._store.runs.values() if state.ended])
        words = how_far(self._store, self._progress.cells)
        self._progress.show_going_on(words, self._store.runner)

    def end(self, states: Sequence[RunState]) -> None:
        """Print what is left, and the sweeps.

        Args:
            states: of all runs.

        Raises:
            Failure: not all could be printed; says where it is saved.
        """
        from tui.cli.run_output import sweeps_text

        self._print(states)
        self._rows.add(sweeps_text(self._store, states))
        self._rows.end()

    def _print(self, states: Sequence[RunState]) -> None:
        from tui.cli.run_output import state_text

        for state in states if self._wanted else ():
            if state.request.id not in self._printed:
                self._printed.add(state.request.id)
                self._progress.clear()
                self._rows.add(state_text(self._store, state))


def how_far(store: Store, cells: int) -> str:
    """Of several runs, how many are done, a bar and about what time is left; then what runs now."""
    from tui.state.queue import queue
    from tui.ui.views.lines import plain
    from tui.ui.views.queue import queue_line

    found = queue(store)
    words = going_on(store)
    if found is None or found.wanted < 2:
        return words
    return plain(queue_line(found, cells, words)).strip()


def going_on(store: Store) -> str:
    """What runs now, how far it is, and what it has found."""
    states = store.runs.values()
    now = next((state for state in states if state.progress and not state.ended), None)
    if now is None or now.progress is None:
        return f"waiting for the runner ({store.runner.status})"
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
    "time workloads on the CPU and the GPUs", RunOptions, add_options, run, place=50
)
