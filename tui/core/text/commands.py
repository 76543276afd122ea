"""Command lines: of processes, shortened with distinguishing words first; of this program."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui.core.text import glyphs
from tui.core.text.numbers import NA

EXAMPLE = "gpu-workbench watch -- python train.py"
"""Example for a user whose program runs out of memory."""
RECORDING = "gpu-workbench watch --record -- python train.py"
"""Example that also records torch's memory history, which shows who allocated the memory."""
OWN_RUNNER = "the workbench's runner"
"""Name of this program's process that runs the workloads, in a list of processes."""
_PYTHON = re.compile(r"(^|/)python[\d.]*$", re.ASCII)
_WITH_VALUE = ("-W", "-X", "-Q")
"""Options of Python itself that take the next word as their value."""
Unit = tuple[str, ...]
"""An option with its value, or a word alone."""


def shorten_command(command: str) -> str:
    """Return a command with its folders last: ``python train.py --lr 3e-4  from ~/work``.

    Args:
        command: the words, joined by blanks, as the system lists them.

    Returns:
        The program without its folder; for Python, the script, with its folder at the end. Python's
        own options are left out; the other words are unchanged.
    """
    head, rest, folder = _split(command)
    return _join_folder((*head, *rest), folder)


def name_program(command: str) -> str:
    """Return a command's program without its folder; for Python, the script or the module."""
    head = _split(command)[0]
    return head[-1] if head else ""


def distinguish(commands: Sequence[str]) -> list[str]:
    """Shorten commands; words that differ between commands of the same program come first.

    ``python train.py --data /big --rank 3`` beside one of rank 4 becomes
    ``python train.py --rank 3 … --data /big``: the dots replace the common words.
    """
    parts = [_split(command) for command in commands]
    groups: dict[Unit, list[list[Unit]]] = {}
    for head, rest, _ in parts:
        groups.setdefault(head, []).append(_pair(rest))
    labels = []
    for head, rest, folder in parts:
        units, others = _pair(rest), groups[head]
        # A word such as serve in "vllm serve MODEL" belongs to the program.
        while (
            units and not units[0][0].startswith("-") and all(units[0] in other for other in others)
        ):
            head, units = (*head, *units[0]), units[1:]
        shared = [unit for unit in units if all(unit in other for other in others)]
        own = [unit for unit in units if unit not in shared]
        if own and shared and units[: len(own)] != own:
            words = [*head, *_join(own), glyphs.GLYPHS.ellipsis, *_join(shared)]
        else:
            words = [*head, *_join(units)]
        labels.append(_join_folder(words, folder))
    # Commands with the same words in another order may get one label.
    whole = [_join_folder((*head, *rest), folder) for head, rest, folder in parts]
    meant: dict[str, set[str]] = {}
    for label, full in zip(labels, whole, strict=True):
        meant.setdefault(label, set()).add(full)
    return [
        label if len(meant[label]) == 1 else full for label, full in zip(labels, whole, strict=True)
    ]


def _join_folder(words: Sequence[str], folder: str) -> str:
    """Return the words in one line, with the folder of the script at the end if it is named."""
    return " ".join(words) + (f"  from {folder}" if folder else "")


def _split(command: str) -> tuple[Unit, Unit, str]:
    """Return the program with its script, the other words, and the script's folder, if named."""
    if command == NA:
        return (NA,), (), ""  # an unknown command, and no folder n
    words = command.split()
    if not words:
        return (), (), ""
    # Names of kernel threads have brackets, and a slash that separates no folder.
    named = words[0].startswith("[")
    program = words[0] if named else words[0].rpartition("/")[2] or words[0]
    if not _PYTHON.search(words[0]):
        return (program,), tuple(words[1:]), ""
    index = 1
    while (
        index < len(words)
        and words[index].startswith("-")
        and words[index] not in ("-m", "-c", "-")
    ):
        index += 2 if words[index] in _WITH_VALUE else 1
    if index >= len(words) or words[index] == "-":
        return (program,), tuple(words[1:]), ""
    if words[index] == "-c":
        return (program,), (" ".join(words[index:]),), ""  # the words of code have an order
    if words[index] == "-m":
        return (program, *words[index : index + 2]), tuple(words[index + 2 :]), ""
    folder, _, script = words[index].rpartition("/")
    return (program, script or words[index]), tuple(words[index + 1 :]), folder if script else ""


def _pair(words: Unit) -> list[Unit]:
    """Return the options with their values: a word after an option that is none itself."""
    units: list[Unit] = []
    for word in words:
        option = units and len(units[-1]) == 1 and units[-1][0].startswith("-")
        if option and not word.startswith("-") and "=" not in units[-1][0]:
            units[-1] = (*units[-1], word)
        else:
            units.append((word,))
    return units


def _join(units: Sequence[Unit]) -> list[str]:
    return [word for unit in units for word in unit]
