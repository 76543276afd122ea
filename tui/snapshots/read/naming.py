"""Names from a file, cleaned for display, and repeated data such as stacks, stored once.

Entries of a file share frames, and often whole stacks. Comparing by identity first
makes the common case fast; comparing by value afterwards merges equal stacks.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TypeVar

from tui.core.text import numbers as fmt
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.snapshot import SnapshotError, Stack

LONGEST = 4096
"""Maximum length of a name in characters; a longer name ends in an ellipsis."""

_MOST_ITEMS = 64
_MOST_BITS = 1024


class _Replacements(dict[int, str]):
    # Called only for non-printable characters, so speed is irrelevant.
    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in "\t\n\r":
            return " "
        return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"


_REPLACED = _Replacements()


def clean(text: str) -> str:
    """Replace line ends, escapes, lone surrogates and marks that change the text's direction.

    This is stricter than a screen requires (:func:`tui.core.text.glyphs.clean`), because reports
    and JSON contain the text too: every character that Python considers non-printable is replaced.
    """
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text if text.isprintable() else text.translate(_REPLACED)


def format_value(value: object) -> str:
    """Format any value of a file: scalars and strings in full, one level of containers."""
    if isinstance(value, dict):
        items = list(zip(value.items(), range(_MOST_ITEMS), strict=False))
        return clean(", ".join(f"{_scalar(k)}:{_scalar(v)}" for (k, v), _ in items))
    if isinstance(value, (list, tuple)):
        return clean(", ".join(_scalar(item) for item in value[:_MOST_ITEMS]))
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        # Python refuses to print very large integers.
        large = value.bit_length() > _MOST_BITS
        return f"an integer of {value.bit_length()} bits" if large else str(value)
    if isinstance(value, float) or value is None:
        return str(value)
    return describe_type(value)


def describe_type(value: object) -> str:
    """Describe the type of a value for a message: ``a list``, ``an int``, ``None``."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


Item = TypeVar("Item")
_NO_CONTEXT = ("", "N/A")
_PLAIN: frozenset[type] = frozenset((str, int))
_RECENT = 3
"""Number of consecutive stacks used to predict the next."""
_LONGEST_RUN = 4096
_NONE_LIKE_IT = object()
"""An object that equals no data from a file."""
MOST_FRAMES = 1 << 14
"""Maximum number of frames in one stack, to bound the cost of a list that many entries share."""
MOST_STREAMS = 1 << 16
MOST_POOLS = 1 << 15
MOST_CATEGORIES = 1 << 8
"""Maximum number of categories; torch has seven and an unknown one."""
_LONGEST_CATEGORY = 64
_POOL_NUMBERS = 1 << 64
"""Upper bound of a pool's two numbers, which are unsigned 64-bit integers."""


class Interner:
    """The tables of one file during reading.

    Frames of the file are identified by ``id``. This stays valid while frames are released one by
    one, because reading creates no object of the file after releasing the first.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.stacks: list[Stack] = [()]
        self.streams: list[int] = []
        self.pools: list[tuple[int, int]] = []
        self.contexts: list[str] = [""]
        self.categories: list[str] = [""]
        self.odd: Counter[str] = Counter()
        """Number of irregularities by kind."""
        self._frame_by_id: dict[int, int] = {}
        self._frame_by_value: dict[tuple[str, int, str], int] = {}
        self._flat: set[int] = set()
        # One list per stack as it occurs in the file, for comparisons. Contains only plain frames:
        # comparing nested data could take forever.
        self._examples: list[object] = [None]
        self._past = array("I")
        """Stack numbers of all read entries."""
        self._after: dict[tuple[int, ...], int] = {}
        """Position in that list after the newest occurrence of each short sequence."""
        self._next = 0
        """Position of the predicted next stack."""
        self._stride = 1
        self._stack_by_frames: dict[tuple[int, ...], int] = {(): 0}
        self._stack_by_value: dict[Stack, int] = {(): 0}
        self.stream_numbers: dict[int, int] = {}
        """Numbers of raw streams."""
        self.context_numbers: dict[tuple[object, object], int] = {}
        """Numbers of ``compile_context`` and ``user_metadata`` pairs."""
        self._context_by_text: dict[str, int] = {"": 0}
        self.pool_numbers: dict[tuple[int, int], int] = {}
        self._category_numbers: dict[str, int] = {"": 0}

    def stack_numbers(self, raws: list[object]) -> array[int]:
        """Return the numbers of the stacks of consecutive entries (lists of frames or ``None``).

        A program allocates and frees in the same order again and again, so the next stacks usually
        repeat the sequence after the last occurrence of the latest three. A run of them is compared
        at once by the identity of the frames, without hashing all frames of each stack.
        """
        past, begun, count = self._past, len(self._past), len(raws)
        done = 0
        while done < count:
            done += self._match_previous(raws, done)
            if done < count:
                past.append(self.stack(raws[done]))
                done += 1
                recent = tuple(past[-_RECENT:])
                self._next = self._after.get(recent, len(past))
                self._after[recent] = len(past)
        return past[begun:]

    def _match_previous(self, raws: list[object], first: int) -> int:
        """Assign numbers to stacks that repeat earlier ones, and return the count."""
        past, examples, start = self._past, self._examples, first
        while first < len(raws) and self._next < len(past):
            guess = past[self._next : self._next + min(self._stride, len(raws) - first)]
            likely, actual = (
                [examples[number] for number in guess],
                raws[first : first + len(guess)],
            )
            if actual != likely:
                pairs = enumerate(zip(actual, likely, strict=True))
                same = next(number for number, (pair, other) in pairs if pair != other)
                past.extend(guess[:same])
                self._stride = max(1, same)
                return first + same - start
            past.extend(guess)
            first, self._next = first + len(guess), self._next + len(guess)
            self._stride = min(2 * self._stride, _LONGEST_RUN)
        return first - start

    def stack(self, raw: object) -> int:
        """Return the number of one stack, innermost frame first."""
        if raw is None:
            return 0
        if not isinstance(raw, (list, tuple)):
            self.odd["stacks that are no lists"] += 1
            return 0
        if len(raw) > MOST_FRAMES:
            raise SnapshotError(
                f"a stack of {fmt.grouped(len(raw))} frames, more than {fmt.grouped(MOST_FRAMES)}: "
                "damaged or hostile"
            )
        same_frames = tuple(map(id, raw))
        number = self._stack_by_frames.get(same_frames)
        if number is None:
            value = tuple(map(self._frame, raw))
            number = self._stack_by_value.setdefault(value, len(self.stacks))
            if number == len(self.stacks):
                self.stacks.append(value)
                self._examples.append(raw if self._flat.issuperset(same_frames) else _NONE_LIKE_IT)
            self._stack_by_frames[same_frames] = number
        return number

    def _frame(self, raw: object) -> int:
        number = self._frame_by_id.get(id(raw))
        if number is None:
            value = self._frame_value(raw)
            number = self._frame_by_value.setdefault(value, len(self.frames))
            if number == len(self.frames):
                self.frames.append(Frame(*value))
            self._frame_by_id[id(raw)] = number
            if isinstance(raw, dict) and _PLAIN.issuperset(map(type, (*raw, *raw.values()))):
                self._flat.add(id(raw))
        return number

    def _frame_value(self, raw: object) -> tuple[str, int, str]:
        if isinstance(raw, str):
            return "", 0, clean(raw)
        if not isinstance(raw, dict):
            self.odd["frames that are no dicts"] += 1
            return "??", 0, "??"
        filename, line, name = raw.get("filename"), raw.get("line"), raw.get("name")
        whole = line if isinstance(line, int) and 0 <= line < 1 << 32 else 0
        return (
            clean(filename) if isinstance(filename, str) else "",
            int(whole),
            clean(name) if isinstance(name, str) else "",
        )

    def stream(self, raw: object) -> int:
        """Return the number of a raw ``cudaStream_t``; for a non-integer, the default stream's."""
        if not isinstance(raw, int) or not -(1 << 63) <= raw < 1 << 64:
            self.odd["streams that are no integers"] += 1
            raw = 0
        return _number(int(raw), self.stream_numbers, self.streams, MOST_STREAMS, "streams")

    def pool(self, raw: object) -> int | None:
        """Return the number of a pool, or ``None`` if the file has none."""
        pair = pool_of(raw)
        if pair is None:
            if raw is not None:
                self.odd["pools that are no pairs of numbers"] += 1
            return None
        return _number(pair, self.pool_numbers, self.pools, MOST_POOLS, "pools")

    def context(self, compiled: object, metadata: object) -> int:
        """Return the number of ``compile_context`` and ``user_metadata`` joined to one string."""
        pair = compiled, metadata
        plain = isinstance(compiled, (str, type(None))) and isinstance(metadata, (str, type(None)))
        if plain and pair in self.context_numbers:
            return self.context_numbers[pair]
        parts = [
            clean(part) if isinstance(part, str) else format_value(part)
            for part in (compiled, metadata)
            if part is not None and not (isinstance(part, str) and part in _NO_CONTEXT)
        ]
        joined = "; ".join(parts)
        number = self._context_by_text.setdefault(joined, len(self.contexts))
        if number == len(self.contexts):
            self.contexts.append(joined)
        if plain:
            self.context_numbers[pair] = number
        return number

    def category(self, raw: object) -> int:
        """Return the number of an entry's ``category``, or 0 for one that torch does not write."""
        if raw is None:
            return 0
        number = self._category_numbers.get(raw) if isinstance(raw, str) else None
        if number is None:
            short = isinstance(raw, str) and len(raw) <= _LONGEST_CATEGORY
            if not short or len(self.categories) == MOST_CATEGORIES:
                self.odd["categories that are no short names"] += 1
                return 0
            number = self._category_numbers[str(raw)] = len(self.categories)
            self.categories.append(clean(str(raw)))
        return number


def _number(value: Item, numbers: dict[Item, int], items: list[Item], most: int, kind: str) -> int:
    """Return the number of a stream or pool, which a new one gets."""
    number = numbers.get(value)
    if number is None:
        number = len(items)
        if number == most:
            raise SnapshotError(f"more than {most} {kind} on record: the file is damaged")
        numbers[value] = number
        items.append(value)
    return number


def pool_of(raw: object) -> tuple[int, int] | None:
    """Return the pair that names a pool (a tuple in a pickle, a list in JSON), or ``None``."""
    if not isinstance(raw, (list, tuple)) or len(raw) != 2:
        return None
    first, second = raw
    if not isinstance(first, int) or not isinstance(second, int):
        return None
    if not 0 <= first < _POOL_NUMBERS or not 0 <= second < _POOL_NUMBERS:
        return None
    return int(first), int(second)
