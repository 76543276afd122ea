"""Changed commands: another batch size, a lower precision, and settings that save memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tui.rehearsal.run import Rehearsal, allocator_settings

_BATCH_NAME = (
    r"(?:per[-_]device[-_]|local[-_])?(?:train[-_])?(?:micro[-_])?(?:batch(?:[-_]?size)?|bs)"
)
_PRECISION_NAME = r"(?:precision|(?:torch[-_]|compute[-_]|model[-_])?dtype)"
_LOWER = {"float32": "bfloat16", "torch.float32": "torch.bfloat16", "fp32": "bf16"}
"""Values of options that set the precision, and the same in bfloat16."""
EXPANDABLE, NOT_FOREACH = "expandable segments", "foreach=False"


def _options_named(name: str) -> re.Pattern[str]:
    """Return the pattern of an option's word, such as ``--name``, ``-name=`` or ``train.name=``."""
    path = r"(?:[\w-]+\.)*"
    return re.compile(rf"--?{path}{name}=?|\+{{0,2}}{path}{name}=")


_BATCH = re.compile(rf"{_options_named(_BATCH_NAME).pattern}|-b=?")
"""Options that set the batch size, as public training programs name them."""
_PRECISION = _options_named(_PRECISION_NAME)


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option in a command, and its value."""

    command: tuple[str, ...]
    name: str
    """The option as it is written, such as ``--batch``."""
    value: str
    at: int
    """Index of the word that contains the value."""
    before: str
    """What precedes the value in its word: ``--batch=`` or nothing."""

    def command_with(self, value: str) -> tuple[str, ...]:
        """Return the command with another value of the option."""
        return (*self.command[: self.at], self.before + value, *self.command[self.at + 1 :])


def _find_options(command: Sequence[str], names: re.Pattern[str]) -> Iterator[CommandOption]:
    """Yield the options of these names."""
    for place, word in enumerate(command):
        option, equals, value = word.partition("=")
        if names.fullmatch(option + equals) is None:
            continue
        at = place if equals else place + 1
        value_text = value if equals else command[at] if at < len(command) else ""
        yield CommandOption(
            tuple(command), option, value_text, at, option + equals if equals else ""
        )


def find_batch(command: Sequence[str]) -> CommandOption | None:
    """Return the option that sets the batch size to a number; ``None`` if there is none."""
    for option in _find_options(command, _BATCH):
        if option.value.isascii() and option.value.isdigit() and int(option.value) > 0:
            return option
    return None


def halve_batch(command: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a command with half of its batch size, with its label; ``None`` if it names none."""
    option = find_batch(command)
    if option is None or int(option.value) < 2:
        return None
    half = str(int(option.value) // 2)
    return f"{option.name} {half}", option.command_with(half)


def lower_precision(command: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a command in bfloat16, with its label; ``None`` if no option sets float32."""
    for option in _find_options(command, _PRECISION):
        lower = _LOWER.get(option.value)
        if lower is not None:
            return f"{option.name} {lower}", option.command_with(lower)
    return None


def changes(plan: Rehearsal) -> list[tuple[str, Rehearsal]]:
    """Return changed rehearsals that may fit where one does not, each with a label."""
    rehearsals = [
        (EXPANDABLE, replace(plan, expandable=True)),
        (f"{NOT_FOREACH} in the optimizer", replace(plan, foreach=False)),
    ]
    for changed in (halve_batch(plan.command), lower_precision(plan.command)):
        if changed is not None:
            label, command = changed
            rehearsals.append((label, replace(plan, command=command)))
    return rehearsals


def savings(
    plan: Rehearsal, has_optimizer: bool, inherited: Mapping[str, str] = os.environ
) -> list[tuple[str, Rehearsal]]:
    """Return the settings that may change the largest value, each with its label.

    Args:
        plan: the rehearsal without them.
        has_optimizer: true if the program makes optimizer steps.
        inherited: the environment in which it is rehearsed.
    """
    saving = []
    own = allocator_settings(inherited)[1]
    if "expandable_segments:true" not in own.lower() and "cudamallocasync" not in own.lower():
        saving.append((EXPANDABLE, replace(plan, expandable=True)))
    if has_optimizer:
        saving.append((NOT_FOREACH, replace(plan, foreach=False)))
    return saving
