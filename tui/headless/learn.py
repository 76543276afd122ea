"""``gpu-workbench learn``: the first steps one by one: question, script, figures, answer."""

from __future__ import annotations

from tui.headless.lesson import Lesson
from tui.headless.steps import LearnOptions
from tui.headless.waiter import choose_interval
from tui.kit.command_line.options import Parser, Subcommand, add_common, add_devices
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.progress import run_to_exit
from tui.runs.session.session import Session


def add_options(parser: Parser) -> None:
    """Add the step, the start and the devices."""
    add_common(parser)
    parser.add_argument(
        "name", nargs="?", metavar="STEP", help="show only this step: its name or number"
    )
    parser.add_argument("--from", dest="start", metavar="STEP", help="begin with this step")
    add_devices(
        parser,
        "D",
        "cpu, cuda:0, …, mps, or all GPUs; repeatable (default: the CPU and the first GPU)",
    )


def learn(options: LearnOptions) -> int:
    """Walk through the first steps; return the exit code, 1 if a run failed.

    Raises:
        UsageError: the options contradict each other, or name no step.
    """
    if options.name and options.start:
        raise UsageError("learn: name one step, or begin with one by --from, but not both")
    python, interval = options.python, choose_interval(options.devices)

    async def work() -> int:
        return await Lesson(Session(python, interval, options.files), options).run()

    return run_to_exit(work())


SUBCOMMAND = Subcommand(LearnOptions, add_options, learn)
