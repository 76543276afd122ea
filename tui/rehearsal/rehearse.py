"""``gpu-workbench rehearse``: does a program fit on a GPU that is not here?"""

from __future__ import annotations

import asyncio
import re
import shutil
import textwrap
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.options import Parser, Subcommand, add_ascii
from tui.kit.command_line.output import (
    Failure,
    UsageError,
    print_json,
    print_notice,
    print_text,
    text_width,
)
from tui.kit.command_line.progress import ProgressLine
from tui.kit.command_line.values import parse_duration, whole_number
from tui.rehearsal.cards import CARDS, Card, UnknownCardError, find_card
from tui.rehearsal.changes import changes, find_batch, savings
from tui.rehearsal.device.installation import CannotSimulateError
from tui.rehearsal.device.prepare import SimulatedDevice, prepare_device
from tui.rehearsal.device.record import MOST_DEVICES
from tui.rehearsal.libraries import (
    BadRequirementsError,
    TargetLibraries,
    library_line,
    read_target,
)
from tui.rehearsal.report import encode_card, encode_rehearsal, encode_search
from tui.rehearsal.run import Rehearsal, RehearsalInterruptedError, Rehearsed, rehearse
from tui.rehearsal.search import BadRangeError, Search, SearchRange, parse_range
from tui.rehearsal.verdict import EAGER_MARGIN, EXIT_CODES, RehearsalVerdict, judge
from tui.rehearsal.views import (
    Attempt,
    SearchWith,
    card_lines,
    conclusion_paragraphs,
    rehearsal_lines,
    search_lines,
    setting_lines,
)
from tui.watch.runs.rehearsals import begin_note, save_note
from tui.watch.runs.runs import StartedRun

ALL = "all"
STEPS = 3
"""From the second step on a training repeats its peak: the optimizer's state exists."""
SCHEMA = 1
INTERRUPTED = 130


class FindBatch(Enum):
    """``--find`` without a range: the option of the command that sets the batch size is varied."""

    IN_COMMAND = "batch"


LARGEST_BATCH = 1024
"""End of the range of ``--find`` without one; 16 times the batch size given, if that is more."""


@dataclass(frozen=True, slots=True)
class RehearseOptions:
    """The program, the card, and when to end."""

    command: Sequence[str] = ()
    dashes: bool = False
    """True if ``--`` stands before the command."""
    gpu: str = "h100"
    gpus: int = 1
    steps: int | None = None
    seconds: float | None = None
    find: SearchRange | FindBatch | None = None
    python: str | None = None
    """The interpreter of the program; ``None`` to find it in the command."""
    target: TargetLibraries | None = None
    """The libraries of the target; ``None`` to compare with none."""
    json: bool = False


def _parse_target(text: str) -> TargetLibraries:
    try:
        return read_target(Path(text))
    except BadRequirementsError as error:
        raise UsageError(f"--target-requirements: {error}") from error


def _parse_find(text: str) -> SearchRange | FindBatch:
    if text == FindBatch.IN_COMMAND.value:
        return FindBatch.IN_COMMAND
    try:
        return parse_range(text)
    except BadRangeError as error:
        raise UsageError(f"--find {error}") from error


def _add_options(parser: Parser) -> None:
    parser.runs_command = True
    add_ascii(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--gpu",
        metavar="CARD",
        help="card: h100, 4090, a size such as 24G, or all for a table (default: h100)",
    )
    parser.add_argument(
        "--gpus", type=whole_number("--gpus"), metavar="N", help="number of cards (default: 1)"
    )
    parser.add_argument(
        "--steps",
        type=whole_number("--steps"),
        metavar="N",
        help=f"end each process after N optimizer steps (default: {STEPS}; 0: never)",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=parse_duration,
        metavar="TIME",
        help="end the program after this long, such as 90s, 5m or 1h",
    )
    parser.add_argument(
        "--find",
        type=_parse_find,
        nargs="?",
        const=FindBatch.IN_COMMAND.value,
        metavar="NAME=LOW..HIGH",
        help="largest value that fits, for each {NAME} in the command; without a range, the largest"
        " batch size, set by an option such as --batch 64",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the program's interpreter, if the command does not name it",
    )
    parser.add_argument(
        "--target-requirements",
        dest="target",
        type=_parse_target,
        metavar="FILE",
        help="name libraries that differ from this file: the target's pip freeze or lock file",
    )
    parser.add_argument(
        "command",
        nargs="*",
        metavar="-- COMMAND",
        help="the program and its arguments, such as -- python train.py --batch 64",
    )


def run_rehearse(options: RehearseOptions) -> int:
    """Carry out ``rehearse``.

    Returns:
        0 if the program fits, 1 if it does not, 3 if it failed by itself, 4 if that is unknown.

    Raises:
        UsageError: the options contradict each other.
    """
    if not options.command:
        raise UsageError("rehearse: give a command after --, as in -- python train.py")
    if not 1 <= options.gpus <= MOST_DEVICES:
        raise UsageError(f"--gpus {options.gpus}: 1 to {MOST_DEVICES}")
    if options.steps is not None and options.steps < 0:
        raise UsageError(f"--steps {options.steps}: 0 or more")
    cards = find_cards(options.gpu)
    values = None if options.find is None else find_values(options.find, options.command)
    if values is not None and len(cards) > 1:
        raise UsageError("--find and --gpu all: give one card")
    try:
        device = prepare_device(options.python or find_interpreter(options.command))
    except CannotSimulateError as error:
        print_notice(str(error))
        return EXIT_CODES["unknown"]
    work = _Work(options, device)
    if values is not None:
        return _run(work.find(values, cards[0]))
    if len(cards) > 1:
        return _run(work.compare(cards))
    return _run(work.rehearse(cards[0]))


def _run(work: Coroutine[Any, Any, int]) -> int:
    """Run the rehearsals; a failure, such as a full disk, leaves the answer unknown."""
    try:
        return asyncio.run(work)
    except RehearsalInterruptedError:
        print_notice("interrupted: the program was ended without a verdict")
        return INTERRUPTED
    except Failure as failure:
        print_notice(str(failure))
        return EXIT_CODES["unknown"]


@dataclass(frozen=True, slots=True)
class Values:
    """The values to search, and the command for each value."""

    range: SearchRange
    label: str
    """The name on screen, such as ``batch`` or ``--batch``."""
    command_with: Callable[[str], tuple[str, ...]]
    bounded: bool
    """True if the user gave the range; otherwise its end is a guess, and most likely far too
    high."""

    @property
    def search(self) -> Search:
        """The search before its first rehearsal."""
        begin = Search.bisecting if self.bounded else Search.galloping
        return begin(self.range)


def find_values(find: SearchRange | FindBatch, command: Sequence[str]) -> Values:
    """Return the values of ``--find``.

    Raises:
        UsageError: the command has no place for the value.
    """
    if isinstance(find, SearchRange):
        placeholder = "{" + find.name + "}"
        if not any(placeholder in word for word in command):
            raise UsageError(f"--find: put {placeholder} into the command, for the value")

        def replaced(value: str) -> tuple[str, ...]:
            return tuple(word.replace(placeholder, value) for word in command)

        return Values(find, find.name, replaced, bounded=True)
    option = find_batch(command)
    if option is None:
        raise UsageError(
            "--find: no option of the command sets a batch size; put {batch} in its place and "
            f"give --find batch=1..{LARGEST_BATCH}"
        )
    high = max(LARGEST_BATCH, 16 * int(option.value))
    values = SearchRange("batch", 1, high)
    return Values(values, option.name, option.command_with, bounded=False)


def find_cards(text: str) -> tuple[Card, ...]:
    """Return the cards of ``--gpu``.

    Raises:
        UsageError: there is no such card.
    """
    if text.strip().lower() == ALL:
        return CARDS
    try:
        return (find_card(text),)
    except UnknownCardError as error:
        raise UsageError(f"--gpu {error}") from error


def find_interpreter(command: Sequence[str]) -> str:
    """Return the Python that runs a command: its first word, or that of the script's first line.

    Raises:
        UsageError: the command is none that can be found, or no Python program.
    """
    path = shutil.which(command[0])
    if path is None:
        raise UsageError(f"{command[0]}: no such program; give its path")
    if re.fullmatch(r"(?:python|pypy)[\d.]*t?", Path(path).name):
        return path
    with Path(path).open("rb") as file:
        first, second = file.readline(4096), file.readline(4096)
    # pip writes a shell's first line where the interpreter's path is too long for the kernel's.
    match = re.match(rb"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(\S*python[\d.]*t?)(?:\s|$)", first)
    match = match or re.match(rb"'''exec' \"?([^\"]+)\"? ", second)
    if match is None:
        raise UsageError(f"{command[0]}: cannot tell which Python runs it; give --python PATH")
    return match[1].decode("utf-8", "surrogateescape")


async def rehearse_and_conclude(
    plan: Rehearsal, device: SimulatedDevice, show: Callable[[str], None]
) -> tuple[Rehearsed, RehearsalVerdict]:
    """Rehearse a command, and store its cards and the verdict in its run's folder.

    Args:
        plan: the command and the cards.
        device: the simulated GPU for the command's torch.
        show: shows one line of progress.

    Raises:
        Failure: the command cannot be started.
        OSError: the run's folder cannot be written.
        RehearsalInterruptedError: SIGINT or SIGTERM arrived.
    """
    note = begin_note(plan.card.name, plan.gpus, plan.card.total)

    def begun(run: StartedRun) -> None:
        save_note(run.folder, note)

    rehearsal = await rehearse(plan, device, show, begun)
    verdict = judge(rehearsal)
    conclusion = tuple(conclusion_paragraphs(rehearsal, verdict))
    save_note(rehearsal.run.folder, replace(note, answer=verdict.answer, conclusion=conclusion))
    return rehearsal, verdict


class _Work:
    """The rehearsals of one command."""

    def __init__(self, options: RehearseOptions, device: SimulatedDevice) -> None:
        self._options = options
        self._device = device
        self._progress = ProgressLine()

    def _plan(self, card: Card, command: Sequence[str] = ()) -> Rehearsal:
        options = self._options
        steps = options.steps
        if steps is None:
            steps = 0 if options.seconds is not None else STEPS
        words = tuple(command or options.command)
        return Rehearsal(words, card, options.gpus, steps, options.seconds)

    async def _run(self, plan: Rehearsal, note: str = "") -> tuple[Rehearsed, RehearsalVerdict]:
        show = partial(_show, self._progress, note)
        try:
            return await rehearse_and_conclude(plan, self._device, show)
        except OSError as error:
            raise Failure(f"the rehearsal cannot be stored: {error}") from error
        finally:
            self._progress.clear()

    def _print(
        self, rehearsed: Rehearsed, verdict: RehearsalVerdict, attempts: Sequence[Attempt] = ()
    ) -> None:
        target = self._options.target
        if self._options.json:
            encoded = encode_rehearsal(rehearsed, verdict, attempts, target)
            print_json({"schema": SCHEMA, **encoded})
        else:
            lines = rehearsal_lines(rehearsed, verdict, attempts, text_width(), target)
            print_text(rows_of_text(lines))

    async def rehearse(self, card: Card) -> int:
        """Rehearse on one card; if the program does not fit, try changes that may help."""
        plan = self._plan(card)
        rehearsal, verdict = await self._run(plan)
        attempts = []
        if verdict.answer == "does not fit":
            attempts = [
                Attempt(label, (await self._run(changed, label))[1])
                for label, changed in changes(plan)
            ]
        self._print(rehearsal, verdict, attempts)
        return verdict.exit_code

    async def compare(self, cards: Sequence[Card]) -> int:
        """Rehearse on each card, and print a table; return the best answer's exit code."""
        judged_rehearsals = []
        for number, card in enumerate(cards, 1):
            judged_rehearsals.append(await self._run(self._plan(card), f"{number} of {len(cards)}"))
            if judged_rehearsals[-1][1].answer == "failed":
                break
        last, verdict = judged_rehearsals[-1]
        if self._options.json:
            target = self._options.target
            encoded = [encode_rehearsal(*judged, (), target) for judged in judged_rehearsals]
            print_json({"schema": SCHEMA, "cards": encoded})
        elif verdict.answer == "failed":
            self._print(last, verdict)
        else:
            rows = [
                (rehearsal.rehearsal.card.name, judged) for rehearsal, judged in judged_rehearsals
            ]
            lines = card_lines(rows, text_width())
            libraries = library_line(verdict.libraries, self._options.target)
            if libraries:
                wrapped = textwrap.wrap(
                    libraries, text_width(), subsequent_indent="  ", break_on_hyphens=False
                )
                lines += ["", *wrapped]
            print_text(rows_of_text(lines))
        if verdict.answer == "failed":
            return verdict.exit_code
        return min(judged.exit_code for _, judged in judged_rehearsals)

    async def find(self, values: Values, card: Card) -> int:
        """Find the largest value that fits, also with settings that save memory.

        The exit code is 1 if no value fits.
        """
        plan = self._plan(card)
        progress = await self._search(values.search, plan, values)
        if progress.stopped is not None:
            return self._give_up(progress.stopped, f"{values.label}={progress.stopped_at}")
        search = progress.search
        if not self._options.json:
            lines = search_lines(
                search, values.label, card.name, progress.tried, progress.best, text_width()
            )
            print_text(rows_of_text(lines))
        others = []
        if search.fits is not None:
            has_optimizer = progress.best is not None and progress.best.steps is not None
            for label, changed in savings(plan, has_optimizer):
                other = await self._search(search.near(), changed, values, f"with {label}, ")
                others.append(SearchWith(label, other.search, other.tried, other.reason))
        if self._options.json:
            result = encode_search(values.label, search, progress.tried, others)
            print_json(
                {
                    "schema": SCHEMA,
                    "command": list(self._options.command),
                    "card": encode_card(card),
                    **result,
                }
            )
        else:
            print_text(rows_of_text(setting_lines(others, text_width())))
        return 0 if search.fits is not None else 1

    async def _search(
        self, search: Search, plan: Rehearsal, values: Values, note: str = ""
    ) -> _SearchProgress:
        """Rehearse until the largest value that fits is known, or a rehearsal is inconclusive."""
        progress = _SearchProgress(search)
        while not progress.search.is_over:
            value = progress.search.next_value(int(plan.card.total * (1 - EAGER_MARGIN.share)))
            changed = replace(plan, command=values.command_with(str(value)))
            number = f"rehearsal {progress.tried + 1}"
            rehearsed, verdict = await self._run(changed, f"{note}{values.label}={value}, {number}")
            progress.tried += 1
            if verdict.answer in ("unknown", "failed") or verdict.fullest is None:
                progress.stopped, progress.stopped_at = (rehearsed, verdict), value
                break
            fits = verdict.answer == "fits"
            peak = verdict.fullest.record.peak if fits else None
            is_close = verdict.answer == "close"
            progress.search = progress.search.apply(value, peak, is_close=is_close)
            if fits and progress.search.fits == value:
                progress.best = verdict
        return progress

    def _give_up(self, last: tuple[Rehearsed, RehearsalVerdict], value: str) -> int:
        rehearsal, verdict = last
        if not self._options.json:
            print_notice(f"the search ends at {value}")
        self._print(rehearsal, verdict)
        return verdict.exit_code


@dataclass(slots=True)
class _SearchProgress:
    """A search in progress."""

    search: Search
    tried: int = 0
    """Number of rehearsals."""
    best: RehearsalVerdict | None = None
    """The verdict on the largest value that fits."""
    stopped: tuple[Rehearsed, RehearsalVerdict] | None = None
    """The inconclusive rehearsal that ended the search; ``None`` if none did."""
    stopped_at: int | None = None

    @property
    def reason(self) -> str:
        """Why the search was not finished; empty if it was."""
        if self.stopped is None:
            return ""
        verdict = self.stopped[1]
        return f"{verdict.answer} at {self.stopped_at}: {verdict.reason}"


def _show(progress: ProgressLine, note: str, text: str) -> None:
    progress.show(f"{text} ({note})" if note else text)


SUBCOMMAND = Subcommand(
    RehearseOptions,
    _add_options,
    run_rehearse,
    description="Rehearse a program on a GPU that is not here: will it fit? Exit codes: 0 it fits,"
    " 1 it does not fit, 2 wrong usage, 3 the program itself failed, 4 unknown.",
)
