"""``gpu-workbench rehearse``: does a program fit on a GPU that is not here?"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.options import Parser, Subcommand, add_ascii
from tui.kit.command_line.output import Failure, UsageError, print_json, print_text, say
from tui.kit.command_line.progress import ProgressLine
from tui.rehearsal.cards import CARDS, Card, UnknownCardError, find_card
from tui.rehearsal.device.installation import CannotSimulateError
from tui.rehearsal.device.prepare import SimulatedDevice, prepare_device
from tui.rehearsal.device.record import MOST_DEVICES
from tui.rehearsal.report import encode_card, encode_rehearsal, encode_search
from tui.rehearsal.run import Rehearsal, RehearsalInterruptedError, Rehearsed, rehearse
from tui.rehearsal.search import BadRangeError, Search, SearchRange, parse_range
from tui.rehearsal.verdict import EAGER_MARGIN, EXIT_CODES, RehearsalVerdict, judge
from tui.rehearsal.views import Attempt, card_lines, rehearsal_lines, search_lines

ALL = "all"
STEPS = 3
"""From the second step on a training repeats its peak: the optimizer's state exists."""
SCHEMA = 1
INTERRUPTED = 130
_BATCH = re.compile(
    r"--?(?:(?:per[-_]device[-_])?(?:train[-_])?(?:micro[-_])?batch(?:[-_]size)?|bs|b)"
)
"""Options that set the batch size, as public training programs name them."""
_PRECISION = re.compile(r"--?(?:precision|(?:torch[-_]|compute[-_]|model[-_])?dtype)")
_LOWER = {"float32": "bfloat16", "torch.float32": "torch.bfloat16", "fp32": "bf16"}
"""Values of options that set the precision, and the same in bfloat16."""


@dataclass(frozen=True, slots=True)
class RehearseOptions:
    """The program, the card, and when to end."""

    command: Sequence[str] = ()
    dashes: bool = False
    """Whether ``--`` stands before the command."""
    gpu: str = "h100"
    gpus: int = 1
    steps: int | None = None
    seconds: float | None = None
    find: SearchRange | None = None
    python: str | None = None
    """The interpreter of the program; ``None`` to find it in the command."""
    json: bool = False


def _parse_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"--for {text}: give seconds, above 0")
    return value


def _parse_find(text: str) -> SearchRange:
    try:
        return parse_range(text)
    except BadRangeError as error:
        raise UsageError(f"--find {error}") from error


def _add_options(parser: Parser) -> None:
    add_ascii(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--gpu",
        metavar="CARD",
        help="the card: a name such as h100 or 4090, a size such as 24G, or all for a table"
        " (default: h100)",
    )
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="number of such cards in the machine (default: 1)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help=f"end each process after N optimizer steps (default: {STEPS}; 0: never)",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_parse_seconds,
        metavar="S",
        help="end the program after S seconds",
    )
    parser.add_argument(
        "--find",
        type=_parse_find,
        metavar="NAME=LOW..HIGH",
        help="find the largest value that fits: each {NAME} in the command stands for it",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the program's interpreter, where the command does not begin with it",
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
        0 if the program fits, 1 if it does not, 2 if that is unknown, 3 if it failed by itself.

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
    if options.find is not None:
        placeholder = "{" + options.find.name + "}"
        if not any(placeholder in word for word in options.command):
            raise UsageError(f"--find: put {placeholder} into the command, for the value")
        if len(cards) > 1:
            raise UsageError("--find and --gpu all: give one card")
    try:
        device = prepare_device(options.python or find_interpreter(options.command))
    except CannotSimulateError as error:
        say(str(error))
        return EXIT_CODES["unknown"]
    work = _Work(options, device)
    if options.find is not None:
        return _run(work.find(options.find, cards[0]))
    if len(cards) > 1:
        return _run(work.compare(cards))
    return _run(work.rehearse(cards[0]))


def _run(work: Coroutine[Any, Any, int]) -> int:
    """Run the rehearsals; a failure, such as a full disk, leaves the answer unknown."""
    try:
        return asyncio.run(work)
    except RehearsalInterruptedError:
        say("interrupted: the program was ended, and nothing is concluded")
        return INTERRUPTED
    except Failure as failure:
        say(str(failure))
        return EXIT_CODES["unknown"]


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
    found = re.match(rb"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(\S*python[\d.]*t?)(?:\s|$)", first)
    found = found or re.match(rb"'''exec' \"?([^\"]+)\"? ", second)
    if found is None:
        raise UsageError(
            f"{command[0]}: nothing says which Python runs it; name it with --python PATH"
        )
    return found[1].decode("utf-8", "surrogateescape")


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
            found = await rehearse(plan, self._device, show)
        finally:
            self._progress.clear()
        return found, judge(found)

    async def rehearse(self, card: Card) -> int:
        """Rehearse on one card; if the program does not fit, try what would help."""
        plan = self._plan(card)
        found, verdict = await self._run(plan)
        attempts = []
        if verdict.answer == "does not fit":
            attempts = [
                Attempt(label, (await self._run(changed, label))[1])
                for label, changed in changes(plan)
            ]
        if self._options.json:
            print_json({"schema": SCHEMA, **encode_rehearsal(found, verdict, attempts)})
        else:
            print_text(rows_of_text(rehearsal_lines(found, verdict, attempts, _cells())))
        return verdict.exit_code

    async def compare(self, cards: Sequence[Card]) -> int:
        """Rehearse on each card, and print a table; the exit code is that of the best answer."""
        found = []
        for number, card in enumerate(cards, 1):
            found.append(await self._run(self._plan(card), f"{number} of {len(cards)}"))
            if found[-1][1].answer == "failed":
                break
        last, verdict = found[-1]
        if self._options.json:
            print_json({"schema": SCHEMA, "cards": [encode_rehearsal(*each) for each in found]})
        elif verdict.answer == "failed":
            print_text(rows_of_text(rehearsal_lines(last, verdict, (), _cells())))
        else:
            rows = [(each.rehearsal.card.name, judged) for each, judged in found]
            print_text(rows_of_text(card_lines(rows, _cells())))
        if verdict.answer == "failed":
            return verdict.exit_code
        return min(judged.exit_code for _, judged in found)

    async def find(self, within: SearchRange, card: Card) -> int:
        """Find the largest value that fits; the exit code is 1 if none does."""
        search, tried = Search(within), 0
        best: RehearsalVerdict | None = None
        while not search.is_over:
            value = search.next_value(int(card.total * (1 - EAGER_MARGIN)))
            placeholder, text = "{" + within.name + "}", str(value)
            words = [word.replace(placeholder, text) for word in self._options.command]
            found, verdict = await self._run(self._plan(card, words), f"{within.name}={value}")
            tried += 1
            if verdict.answer in ("unknown", "failed") or verdict.fullest is None:
                return self._give_up(found, verdict, f"{within.name}={value}")
            fits = verdict.answer == "fits"
            search = search.apply(value, verdict.fullest.record.peak if fits else None)
            if fits:
                best = verdict  # each value that fits is larger than those before
        if self._options.json:
            result = {"card": encode_card(card), **encode_search(search, tried)}
            print_json({"schema": SCHEMA, "command": list(self._options.command), **result})
        else:
            print_text(rows_of_text(search_lines(search, card.name, tried, best)))
        return 0 if search.fits is not None else 1

    def _give_up(self, found: Rehearsed, verdict: RehearsalVerdict, value: str) -> int:
        if self._options.json:
            print_json({"schema": SCHEMA, **encode_rehearsal(found, verdict)})
        else:
            say(f"the search ends at {value}")
            print_text(rows_of_text(rehearsal_lines(found, verdict, (), _cells())))
        return verdict.exit_code


def changes(plan: Rehearsal) -> list[tuple[str, Rehearsal]]:
    """Return changed rehearsals that may fit where one does not, each with a label."""
    found = [
        ("expandable segments", replace(plan, expandable=True)),
        ("foreach=False in the optimizer", replace(plan, foreach=False)),
    ]
    for changed in (halve_batch(plan.command), lower_precision(plan.command)):
        if changed is not None:
            label, command = changed
            found.append((label, replace(plan, command=command)))
    return found


def lower_precision(command: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a command in bfloat16, with its label; ``None`` if no option sets float32."""
    for option, given, changed in _options(command, _PRECISION):
        lower = _LOWER.get(given)
        if lower is not None:
            return f"{option} {lower}", changed(lower)
    return None


def halve_batch(command: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a command with half of its batch size, with its label; ``None`` if it names none."""
    for option, given, changed in _options(command, _BATCH):
        if given.isascii() and given.isdigit() and int(given) > 1:
            half = str(int(given) // 2)
            return f"{option} {half}", changed(half)
    return None


def _options(
    command: Sequence[str], names: re.Pattern[str]
) -> Iterator[tuple[str, str, Callable[[str], tuple[str, ...]]]]:
    """Yield the options of these names, their values, and what replaces the value."""
    for place, word in enumerate(command):
        option, equals, value = word.partition("=")
        if names.fullmatch(option) is None:
            continue
        at = place if equals else place + 1
        given = value if equals else command[at] if at < len(command) else ""
        start = f"{option}=" if equals else ""

        def changed(to: str, at: int = at, start: str = start) -> tuple[str, ...]:
            return (*command[:at], start + to, *command[at + 1 :])

        yield option, given, changed


def _show(progress: ProgressLine, note: str, text: str) -> None:
    progress.show(f"{text} ({note})" if note else text)


def _cells() -> int:
    return max(60, min(120, shutil.get_terminal_size((80, 24)).columns))


SUBCOMMAND = Subcommand(RehearseOptions, _add_options, run_rehearse)
