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
from tui.cli.streams import print_text, say
from tui.cli.subcommand import Subcommand
from tui.cli.wait import Waiter, say_problems
from tui.session.session import Session
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
    from tui.cli.run_output import as_json, as_text

    # The monitor tells under which clocks a GPU ran; on the CPU alone it would only be in the way.
    cpu_only = set(options.devices) == {"cpu"}
    session = Session(python, None if cpu_only else INTERVAL_S, options.files)
    waiter, progress = Waiter(session), ProgressLine()
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
            done = await waiter.until(
                lambda: not session.store.pending(),
                lambda: progress.show_going_on(going_on(session.store), session.store.runner),
            )
            if not done:
                await waiter.finish(progress)
        progress.clear()
    finally:
        await session.stop()
    states = list(session.store.runs.values())
    if options.json:
        print_json(as_json(session.store, states), "run")
    else:
        print_text(as_text(session.store, states), "run.txt")
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


def going_on(store: Store) -> str:
    """What runs now, how far it is, and what it has found."""
    states = list(store.runs.values())
    ended = sum(state.ended for state in states)
    now = next((state for state in states if state.progress and not state.ended), None)
    head = f"{ended}/{len(states)} done"
    if now is None or now.progress is None:
        return f"{head}  waiting for the runner ({store.runner.status})"
    progress = now.progress
    parts = [head, f"{now.request.workload} on {now.request.device}", progress.phase]
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
