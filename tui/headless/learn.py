"""``gpu-workbench learn``: the first steps one by one: question, script, figures, answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tui.core.text import glyphs
from tui.devices.state.devices import CPU
from tui.headless.catalogue import CatalogueOptions, print_problems
from tui.headless.colored import print_lines
from tui.headless.on_a_gpu import describe_on_a_gpu
from tui.headless.pager import Pager
from tui.headless.quiz import Quiz, choice_keys, parse_choice
from tui.headless.script_run import ScriptEnd, run_script
from tui.headless.waiter import Waiter, choose_devices, choose_interval, describe_current_run
from tui.kit.command_line.options import Parser, Subcommand, add_common, add_devices
from tui.kit.command_line.output import (
    UsageError,
    fit_to_terminal,
    not_known,
    print_json,
    width,
)
from tui.kit.command_line.progress import ProgressLine, run_to_exit
from tui.kit.lines import Line, Span, TextStyle, fit, fit_line, left, line, paragraph, verbatim
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from tui.runs.views.question import answer_lines, question_lines
from tui.runs.views.result_text import encode_results, format_results
from tui.runs.views.source import source_lines
from workloads.protocol import wire
from workloads.protocol.groups import FIRST_STEPS, UNTIMED_STEPS
from workloads.protocol.results import WorkloadInfo

ENDS = ("q", "Q", "\x04", "")
"""Keys that end the walk: q, Ctrl-D, and a terminal that is gone."""

ENTERS = ("\r", "\n")
BACK, LISTS = "b", "l"
"""Keys for the step before, and for the list of steps."""

RUNS = "any key runs it, q ends"

STEP_LIST = f"gpu-workbench list {FIRST_STEPS}"
"""The command that lists the steps."""

MORE = "gpu-workbench list shows more."

MOST_BYTES = 64
"""One key can send several bytes, such as an arrow key's escape sequence."""


@dataclass(frozen=True, slots=True)
class LearnOptions(CatalogueOptions):
    """The steps to walk through, and the devices that they run on."""

    name: str = ""
    """Name or number of the only step; empty for all."""
    start: str = ""
    """Name or number of the first step; empty for the first of all."""
    devices: Sequence[str] = ()
    """Torch devices; empty for the CPU and the first GPU."""


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


def choose_steps(
    catalogue: Sequence[WorkloadInfo], name: str = "", start: str = ""
) -> list[tuple[int, WorkloadInfo]]:
    """Return the chosen steps in the order of learning, each with its number from 1.

    Args:
        catalogue: the workloads.
        name: name or number of the only step; empty for all.
        start: name or number of the first step; empty for the first of all.

    Raises:
        UsageError: a name is not one of the steps.
    """
    steps = list(enumerate((info for info in catalogue if info.group == FIRST_STEPS), 1))
    known = [info.name for _, info in steps]
    name, start = (_resolve_number(typed, known) for typed in (name, start))
    for typed in filter(None, (name, start)):
        if typed not in known:
            others = {info.name for info in catalogue}
            if typed in others:
                words = f"{typed} is not one of the first steps: gpu-workbench run {typed} runs it"
                raise UsageError(f"learn: {words}")
            raise UsageError(f"learn: {not_known('step', typed, known, STEP_LIST)}")
    if name:
        return [steps[known.index(name)]]
    return steps[known.index(start) if start else 0 :]


def _resolve_number(typed: str, names: Sequence[str]) -> str:
    """Return the name of the step with a typed number, from 1; other text unchanged.

    Raises:
        UsageError: no step has this number.
    """
    if not (typed.isascii() and typed.isdigit()):
        return typed
    if not 1 <= int(typed) <= len(names):
        count = len(names)
        raise UsageError(f"learn: no step {typed}: {STEP_LIST} shows the {count}, in their order")
    return names[int(typed) - 1]


def title_lines(info: WorkloadInfo, number: int, count: int, cells: int) -> list[Line]:
    """Return the title of a step, between rules.

    Args:
        info: the step.
        number: of the step, from 1.
        count: number of all steps.
        cells: width of a line.
    """
    rule = glyphs.GLYPHS.rule
    title = f"{rule * 2} {number} of {count}   {info.name}: {info.title} "
    return [
        line(Span(fit(title + rule * max(0, cells - len(title)), cells), TextStyle.HEADING)),
        (),
    ]


def contents(steps: Sequence[tuple[int, WorkloadInfo]], cells: int) -> list[Line]:
    """Return the numbers, names and titles of steps, below what a step consists of.

    Args:
        steps: the steps with their numbers.
        cells: width of a line.
    """
    words = f"{len(steps)} first steps, each a question, a script and its run here:"
    longest = max(len(info.name) for _, info in steps)
    rows = [
        line(f"  {number:>2}  ", Span(left(info.name, longest), TextStyle.KEY), f"  {info.title}")
        for number, info in steps
    ]
    rows = [fit_line(row, cells) for row in rows]
    return [*paragraph(words, cells, TextStyle.HEADING), *rows, ()]


def choose_number(typed: str, key: str, most: int) -> str:
    """Return a typed number after one more key: a digit continues it, or else begins it anew.

    Args:
        typed: the digits typed so far.
        key: the next key; any but a digit erases the number.
        most: the highest number; the lowest is 1.
    """
    for number in (typed + key, key):
        if number.isascii() and number.isdigit() and 1 <= int(number) <= most:
            return number
    return ""


def code_part(info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the script of a step, or the timed lines of a user's own."""
    return [*source_lines(info, cells, f"gpu-workbench code {info.name} prints it"), ()]


def script_part(end: ScriptEnd, cells: int) -> list[Line]:
    """Return what the script printed, and how it failed."""
    rows = [line(Span("The script printed", TextStyle.HEADING))]
    if end.printed:
        rows += [row for entry in end.printed for row in verbatim(entry, cells)]
    else:
        rows.append(line(Span("  nothing", TextStyle.QUIET)))
    if end.error:
        rows += paragraph(f"The script failed: {end.error}", cells, TextStyle.BAD)
        rows += [row for entry in end.last_lines for row in verbatim(entry, cells)]
    return [*rows, ()]


def figures_part(info: WorkloadInfo, results: str) -> list[Line]:
    """Return the results of the workload, below a line that says how they come about.

    Args:
        info: the step.
        results: their text, fitted to the terminal.
    """
    how = " with the functions of the script" if info.script else ""
    title = line(Span(f"What the workload {info.name} found{how}", TextStyle.HEADING))
    return [title, *(line(row) for row in results.splitlines())]


class Lesson:
    """Walks through the steps: asks the question of each, runs its script and workload, answers.

    Without a terminal, or with ``--json``, it asks nothing, and prints question and answer at once.

    Args:
        session: runs the workloads; not started yet.
        options: the options of the command.
    """

    def __init__(self, session: Session, options: LearnOptions) -> None:
        self._session = session
        self._options = options
        self._waiter, self._progress = Waiter(session), ProgressLine()
        self._asks = is_interactive() and not options.json
        self._pager, self._quiz = Pager(self._wait_for_key), Quiz()
        self._script_failed = False
        self._key: str | None = None
        """The key typed last; ``None`` while it is waited for."""

    async def run(self) -> int:
        """Walk through the steps, and return the exit code.

        Raises:
            UsageError: the options name no step.
            Failure: the runs are not possible, or the output cannot be written.
        """
        await self._session.start()
        try:
            if await self._waiter.catalogue(self._progress):
                choose_steps(
                    self._session.state.runs.catalogue, self._options.name, self._options.start
                )
            if await self._waiter.ready(self._progress):
                await self._walk()
        finally:
            self._progress.clear()
            await self._session.stop()
        failed = any(entry.failed for entry in self._session.state.runs.book.values())
        hello = self._session.state.runs.hello
        broken = hello is not None and bool(hello.problems)
        return self._waiter.exit_code(1 if failed or broken or self._script_failed else 0)

    async def _walk(self) -> None:
        options, state = self._options, self._session.state.runs
        print_problems(state.hello)
        chosen = choose_steps(state.catalogue, options.name, options.start)
        devices = choose_devices(self._session, options.devices)
        if options.json:
            await self._print_as_json(chosen, devices)
            return
        steps = chosen if options.name else choose_steps(state.catalogue)
        chooses = self._asks and not options.name and not options.start
        place = await self._choose(steps) if chooses else steps.index(chosen[0])
        while place is not None and place < len(steps):
            following = steps[place + 1][1].name if place + 1 < len(steps) else ""
            if not await self._show_step(*steps[place], devices, following):
                return
            if following and self._key == LISTS:
                place = await self._choose(steps)
            else:
                place = max(0, place - 1) if following and self._key == BACK else place + 1
        if place is not None and self._asks and not options.name:
            words = ("These were the first steps.", self._quiz.format_score(), MORE)
            print_lines(paragraph(" ".join(filter(None, words)), width()))

    async def _print_as_json(
        self, steps: Sequence[tuple[int, WorkloadInfo]], devices: Sequence[str]
    ) -> None:
        """Run all steps, and print them as one object; after a signal nothing."""
        encoded: list[dict[str, Any]] = []
        for number, info in steps:
            entries = await self._run_step(info, devices)
            if entries is None:
                return
            encoded.append(self._encode(number, info, entries))
        environment = self._session.state.machine.environment
        print_json({"environment": wire.to_plain(environment), "steps": encoded})

    async def _show_step(
        self, number: int, info: WorkloadInfo, devices: Sequence[str], following: str
    ) -> bool:
        """Ask a step's question, print its runs and the answer; return whether to go on.

        Args:
            number: of the step, from 1.
            info: the step.
            devices: torch's names of the devices that it runs on.
            following: name of the next step; empty after the last.
        """
        state = self._session.state.runs
        on_gpu = any(device != CPU for device in devices)
        count = sum(known.group == FIRST_STEPS for known in state.catalogue)
        if not await self._introduce(info, number, count, on_gpu=on_gpu):
            return False
        entries = await self._run_step(info, devices)
        if entries is None:
            return False  # a signal ended the run
        timed = info.name not in UNTIMED_STEPS
        results = fit_to_terminal(format_results(state, entries, timed=timed))
        shown = await self._pager.show(figures_part(info, results)) and await self._explain(
            info, on_gpu=on_gpu
        )
        if not shown:
            return self._end(info.name)
        return await self._show_answer(info, following)

    async def _introduce(
        self, info: WorkloadInfo, number: int, count: int, *, on_gpu: bool
    ) -> bool:
        """Ask a step's question, print what it does and run its script; return whether to go on.

        Args:
            info: the step.
            number: of the step, from 1.
            count: number of all steps.
            on_gpu: a GPU is one of the lesson's devices.
        """
        pager, cells = self._pager, width()
        goes_on = (
            await pager.show(title_lines(info, number, count, cells))
            and (not self._asks or not info.question or await self._show_question(info, "goes on"))
            and await pager.show([*self._confirm_choice(info), *paragraph(info.about, cells), ()])
            and await pager.show(code_part(info, cells), "any key shows the script, q ends")
            and await pager.confirm(RUNS)
        )
        if not goes_on:
            return self._end(info.name)
        if not info.script:
            return True
        running = asyncio.ensure_future(
            run_script(self._options.python, info.name, info.script, gpu=on_gpu)
        )
        running.add_done_callback(lambda _: self._waiter.wake())
        ended = await self._waiter.until(
            running.done, lambda: self._progress.show(f"running the script {info.name}.py")
        )
        self._progress.clear()
        if not ended:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            return False  # a signal
        end = running.result()
        self._script_failed |= bool(end.error)
        return await pager.show(script_part(end, cells)) or self._end(info.name)

    async def _explain(self, info: WorkloadInfo, *, on_gpu: bool) -> bool:
        """Print what to look for, and what would differ on a GPU; return whether to go on."""
        # Beside the figures: above the script it would have left a small screen.
        rows: list[Line] = [(), *paragraph(info.look_for, width(), label="Look for: "), ()]
        words = "" if on_gpu else describe_on_a_gpu(info.name)
        if words:
            rows += [*paragraph(words, width(), TextStyle.NOTE), ()]
        return await self._pager.show(rows)

    async def _run_step(
        self, info: WorkloadInfo, devices: Sequence[str]
    ) -> Sequence[RunState] | None:
        """Run a step quickly with its defaults, and return its runs; ``None`` after a signal."""
        state = self._session.state.runs
        if info.name in UNTIMED_STEPS and not self._options.devices:
            devices = devices[-1:]  # the GPU: without times to compare, the CPU says the same
        self._session.run([info.name], devices, "quick")
        ended = await self._waiter.until(
            lambda: not state.pending(),
            lambda: self._progress.show_going_on(describe_current_run(state), state.runner),
        )
        if not ended:
            await self._waiter.finish(self._progress)
            return None
        self._progress.clear()
        return [entry for entry in state.book.values() if entry.request.workload == info.name]

    async def _show_question(self, info: WorkloadInfo, otherwise: str) -> bool:
        """Show a step's question and read a choice; return whether to go on.

        Args:
            info: the step.
            otherwise: what a key does that picks none of the choices.
        """
        if not await self._pager.show([*question_lines(info, width()), ()]):
            return False
        keys = choice_keys(info)
        prompt = f"{keys} answers, any other key" if keys else "any key"
        if not await self._pager.confirm(f"{prompt} {otherwise}, q ends"):
            return False
        self._quiz.store(info, parse_choice(info, self._key or ""))
        return True

    def _confirm_choice(self, info: WorkloadInfo) -> list[Line]:
        chosen = self._quiz.chosen(info)
        words = f"You chose {chosen}. The answer comes after the run."
        return [*paragraph(words, width(), TextStyle.QUIET), ()] if chosen else []

    async def _show_answer(self, info: WorkloadInfo, following: str) -> bool:
        """Show the answer to the step's question; return whether to continue.

        A user who did not answer before the run is asked again, now that the figures are there.

        Args:
            info: the step.
            following: name of the next step; empty after the last.
        """
        cells = width()
        if info.question:
            asks = self._asks and not self._quiz.chosen(info)
            if asks and not await self._show_question(info, "shows the answer"):
                return self._end(info.name)
            question = [] if asks else question_lines(info, cells, answered=True)
            answer = answer_lines(info, cells, self._quiz.chosen(info))
            if not await self._pager.show([*question, *answer, ()]):
                return self._end(info.name)
        prompt = f"any key goes on to {following}, {BACK} back, {LISTS} list, q ends"
        if following and not await self._pager.confirm(prompt):
            return self._end(following)
        return True

    async def _choose(self, steps: Sequence[tuple[int, WorkloadInfo]]) -> int | None:
        """List all steps, and return the index of the typed number's; ``None`` to end."""
        await self._pager.show(contents(steps, width()))
        typed = ""
        while True:
            prompt = f"enter begins with {typed or 1}, or type a number, q ends"
            if not await self._pager.confirm(prompt):
                return None
            for key in self._key or "":  # several where they were typed at once
                if key in ENTERS:
                    return int(typed or 1) - 1
                typed = choose_number(typed, key, len(steps))

    def _end(self, name: str) -> bool:
        if self._waiter.signalled is None and not self._options.name:
            print_lines(paragraph(f"Continue with: gpu-workbench learn --from {name}", width()))
        return False

    async def _wait_for_key(self, prompt: str) -> bool:
        """Wait for a key; return whether to continue. Without a terminal, continue at once."""
        if not self._asks:
            return True
        self._key = None
        with read_keys(self._note_key):
            pressed = await self._waiter.until(
                lambda: self._key is not None, lambda: self._progress.show(prompt)
            )
        self._progress.clear()
        return pressed and self._key not in ENDS

    def _note_key(self, key: str) -> None:
        self._key = key
        self._waiter.wake()

    def _encode(
        self, number: int, info: WorkloadInfo, entries: Sequence[RunState]
    ) -> dict[str, Any]:
        """Return a step as plain data: its texts, its question, and the results."""
        return {
            "number": number,
            "name": info.name,
            "title": info.title,
            "about": info.about,
            "look_for": info.look_for,
            "script": info.script,
            "code": info.code,
            "question": info.question,
            "choices": list(info.choices),
            "right_choice": info.right_choice or None,
            "answer": info.answer,
            "results": encode_results(self._session.state.runs, entries)["results"],
        }


# ---- keys ----


def is_interactive() -> bool:
    """Return whether a user can answer: all three standard streams are terminals."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream.isatty() for stream in streams)


@contextlib.contextmanager
def read_keys(on_key: Callable[[str], None]) -> Iterator[None]:
    """Call a function for each key typed on standard input within the block.

    Keys do not wait for Enter and are not shown; those typed before the block are dropped. The
    terminal is as before after the block.

    Args:
        on_key: gets the characters of the key; empty if the terminal is gone.
    """
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    modes = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSAFLUSH)
    loop.add_reader(terminal, lambda: on_key(_read(terminal)))
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


SUBCOMMAND = Subcommand(LearnOptions, add_options, learn)
