"""Random walks over the keyboard: the same seed types the same keys, in-process or on a terminal.

A walk knows every key of the registry, the keys of dialogs, and words for fields. It types in
bursts, where a key arrives before the one before it has done its work, and one by one. It changes
the size, too. Whoever walks gives the program a state folder of its own, and lists no process to it
that the test has not started: a walk finds the commands that send signals.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from textual.keys import REPLACED_KEYS, key_to_character

from tui.app import commands
from tui.kit.commands.command import TABS

COMMANDS = commands.REGISTRY.commands
SEQUENCES = {
    "escape": "\x1b",
    "enter": "\r",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "space": " ",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f5": "\x1b[15~",
    "f6": "\x1b[17~",
    "ctrl+a": "\x01",
    "ctrl+c": "\x03",
    "ctrl+p": "\x10",
    "ctrl+q": "\x11",
    "ctrl+s": "\x13",
    "ctrl+u": "\x15",
    "ctrl+z": "\x1a",
}
"""What xterm sends for keys that have no character of their own."""
ENDS = frozenset({"q", "ctrl+q", "ctrl+c"})
"""Keys that may end the program in good order: they are rare."""
SUSPENDS = frozenset({"ctrl+z"})
REGISTRY = tuple(sorted({key for command in COMMANDS for key in command.keys}))
DIALOGS = ("y", "n", "i", "t", "k", "space", "enter", "escape", "f2", "f5", "f6", "ctrl+s")
MOVES = ("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab", "shift+tab")
EDITS = ("backspace", "delete", "ctrl+a", "ctrl+u", "left", "home")
PALETTE = ("colon", "ctrl+p", "T")
WORDS = (
    *("mat", "transfer", "run", "open", "device", "tab", "theme", "16..8192x2", "*", "1e999", "-1"),
    *("/", "~", "/dev/null", "//", "[/x]", "[bold", "é世", "%s", "a b  c", "torch=2.12"),
)
"""Typed into whatever takes letters; where nothing does, each letter is a key."""
SIZES = ((80, 24), (120, 40), (60, 20), (200, 60), (40, 10), (100, 30), (10, 3))
BURST = 8
"""Most keys that are typed at once, besides the letters of words."""
RECENT = 60
"""Keys that are told when the program has died."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done at once."""

    keys: tuple[str, ...] = ()
    """By the names that Textual has for them."""
    apart: bool = False
    """The program is given time between two keys."""
    size: tuple[int, int] | None = None
    """Columns and rows that the terminal gets first."""


class WalkError(AssertionError):
    """The program has died on a walk."""


class Walk:
    """Random steps, the same for the same seed.

    Args:
        seed: of the walk.
        quits: also type what ends the program in good order; who walks starts it again.
    """

    def __init__(self, seed: int, *, quits: bool = True) -> None:
        self.seed = seed
        self.typed = 0
        """Keys so far."""
        self._random = random.Random(seed)
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._quits = quits

    def steps(self, keys: int) -> Iterator[Step]:
        """Return steps until so many keys are typed, over all calls."""
        while self.typed < keys:
            yield self.step()

    def step(self) -> Step:
        """Return the next step."""
        chosen = self._random.choices(
            (self._keys, self._repeat, self._palette, self._tab, self._word, self._escape),
            (10, 3, 4, 3, 3, 2),
        )[0]
        keys = tuple(each for each in chosen() if self._may_be_typed(each))
        apart = self._random.random() < 0.4
        size = self._random.choice(SIZES) if self._random.random() < 0.05 else None
        self.typed += len(keys)
        if size is not None:
            self._recent.append(f"<{size[0]}x{size[1]}>")
        self._recent.extend(keys if apart else ("<burst>", *keys))
        return Step(keys, apart, size)

    def fail(self, why: str, cause: Exception | None = None) -> NoReturn:
        """Say what the program has died of, by which seed, and after which keys.

        Args:
            why: what is known of its end.
            cause: the error, where it is at hand.

        Raises:
            WalkError: always.
        """
        keys = " ".join(self._recent)
        raise WalkError(
            f"{why}\nseed {self.seed}, after {self.typed} keys, the last: {keys}"
        ) from cause

    # ---- what is typed ----

    def _may_be_typed(self, key: str) -> bool:
        if key in SUSPENDS:
            return False
        return key not in ENDS or (self._quits and self._random.random() < 0.1)

    def _keys(self) -> Sequence[str]:
        source = self._random.choice((REGISTRY, REGISTRY, DIALOGS, MOVES, EDITS))
        return self._random.choices(source, k=self._random.randint(1, BURST))

    def _repeat(self) -> Sequence[str]:
        """Two or three times the same: it was pressed again because nothing seemed to happen."""
        key = self._random.choice((*REGISTRY, *DIALOGS))
        return (key,) * self._random.randint(2, 3)

    def _palette(self) -> Sequence[str]:
        words = self._random.choice((*(command.id.split("_")[0] for command in COMMANDS), "", ""))
        opened = self._random.choice(PALETTE)
        rest = self._random.choices(("enter", "down", "escape"), (6, 2, 1), k=4)
        if words == "quit" and not self._quits:
            # Without its q, which is not typed, the palette finds it as well.
            return ()
        return (opened, *words, *rest[: self._random.randint(0, 4)])

    def _tab(self) -> Sequence[str]:
        return (self._random.choice([tab.key for tab in TABS]), *self._random.choices(MOVES, k=2))

    def _word(self) -> Sequence[str]:
        opened = self._random.choice(("slash", "equals_sign", "o", "n", "number_sign", "enter"))
        return (opened, *self._random.choice(WORDS), self._random.choice(("enter", "escape")))

    def _escape(self) -> Sequence[str]:
        return ("escape",) * self._random.randint(1, 4)


def characters_of(keys: Iterable[str]) -> Iterator[str]:
    """Yield the characters that a terminal sends for each key."""
    for key in keys:
        found = SEQUENCES.get(key) or key_to_character(REPLACED_KEYS.get(key, key))
        yield found or key
