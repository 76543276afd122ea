"""The origin of frames, the program line of an allocation, and the search for frames.

``re`` cannot be interrupted, and some patterns take exponential time. A pattern must therefore not
repeat groups or use backreferences, and the number of ways to match one text is limited: a repeat
counts as one way per character of the text, which is cut to 200, and an option or an alternative as
two. A text takes at most some ten seconds, and the whole search has a deadline.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache

from tui.snapshots.explain.frames import Frame, classify_frame, format_frame, format_frame_path
from tui.snapshots.model.results import FrameKind, Site
from tui.snapshots.model.snapshot import Snapshot, Stack

NO_STACK = Site("no stack recorded", None, None)
NATIVE_ONLY = Site("no Python frame (C++ only)", "native", None)
BEFORE_TRACE = Site("allocated before the recording (no stack)", None, None)
BEFORE_TRACE_STACK = -1
"""Stack number for allocations that predate the trace and therefore have no stack."""


class Stacks:
    """Analyzes each frame and each stack of a snapshot once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.frames = snapshot.frames
        self._stacks = snapshot.stacks
        self.kind: Callable[[int], FrameKind] = cache(
            lambda frame: classify_frame(self.frames[frame])
        )
        """Classifies a frame, given by its number, as user, framework or other code."""
        self.key: Callable[[int], str] = cache(lambda frame: format_frame_path(self.frames[frame]))
        """Returns :func:`format_frame_path` of a frame, given by its number."""
        self.site: Callable[[int], Site] = cache(self._find_site)
        """Returns the site of an allocation, given the number of its stack: the innermost frame of
        user code, else the innermost Python frame."""
        self.path: Callable[[int], tuple[tuple[int, int], ...]] = cache(self._find_path)
        """Returns frame numbers from the site outwards, each with the count of hidden frames
        before; only user frames if there are any, else all Python frames."""

    def stack(self, number: int) -> Stack:
        """Return the frame numbers of a stack, innermost first; ``()`` if there are none."""
        return () if number == BEFORE_TRACE_STACK else self._stacks[number]

    def of(self, number: int) -> tuple[Frame, ...]:
        """Return the frames of a stack, innermost first."""
        return tuple(self.frames[frame] for frame in self.stack(number))

    def _find_site(self, number: int) -> Site:
        if number == BEFORE_TRACE_STACK:
            return BEFORE_TRACE
        path = self.path(number)
        if path:
            frame = path[0][0]
            return Site(format_frame(self.frames[frame]), self.kind(frame), self.frames[frame])
        return NATIVE_ONLY if self._stacks[number] else NO_STACK

    def _find_path(self, number: int) -> tuple[tuple[int, int], ...]:
        stack = self.stack(number)
        path = [place for place, frame in enumerate(stack) if self.kind(frame) == "user"]
        if not path:
            path = [place for place, frame in enumerate(stack) if self.kind(frame) != "native"]
        before = [-1, *path]
        return tuple(
            (stack[place], place - last - 1) for last, place in zip(before, path, strict=False)
        )


TEXT_LIMIT = 200
"""Number of a frame's characters that a regular expression sees; from a longer one the last."""
PATTERN_LIMIT = 200
MOST_WAYS = TEXT_LIMIT**3
"""Maximum number of ways a pattern may match from one position: three repeats, or two and seven
options."""
DEADLINE_S = 2.0

_TOKEN = re.compile(
    r"\\[1-9]|\\.|\(\?P=|\(\?\(|\(\?|\)(?:[*+]|\{[^}]*\})|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|[*+?]\??|\{\d*,?\d*\}\??|.",
    re.DOTALL,
)
_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}\??")


class SearchError(ValueError):
    """The search is impossible; the text is one line: problem, reason, remedy."""


def address_in(search: str) -> int | None:
    """Parse a search such as ``0x7f12a0`` as an address; return ``None`` for any other text."""
    text = search.strip().lower()
    return int(text, 16) if re.fullmatch(r"0x[0-9a-f]{1,16}", text) else None


def matching_frames(stacks: Stacks, search: str, *, regex: bool) -> frozenset[int]:
    """Return the numbers of the frames that match a search.

    The search covers ``path:line function`` and ignores case.

    Raises:
        SearchError: the pattern is invalid or too costly, or the time is up.
    """
    matches = _matcher(search, regex=regex)
    deadline = time.monotonic() + DEADLINE_S
    matching = set()
    for number in range(len(stacks.frames)):
        if matches(stacks.key(number)):
            matching.add(number)
        if regex and time.monotonic() > deadline:
            raise SearchError(
                f"the pattern {_shown(search)} takes longer than {DEADLINE_S:.0f} s: use a simpler"
                " one, or plain text"
            )
    return frozenset(matching)


def _matcher(search: str, *, regex: bool) -> Callable[[str], bool]:
    if not regex:
        folded = search.casefold()
        return lambda text: folded in text.casefold()
    refuse_costly(search)
    try:
        pattern = re.compile(search)
    except (re.error, OverflowError, RecursionError) as error:
        raise SearchError(
            f"{_shown(search)} is no regular expression: {error}; correct it, or search for text"
        ) from error
    return lambda text: pattern.search(text[-TEXT_LIMIT:]) is not None


def refuse_costly(pattern: str) -> None:
    """Reject a pattern that could take exponential time.

    Raises:
        SearchError: the pattern is too long, repeats a group, uses a backreference, or has too many
            repeats or alternatives.
    """
    if len(pattern) > PATTERN_LIMIT:
        raise SearchError(f"a pattern of {len(pattern)} characters: at most {PATTERN_LIMIT}")
    ways = 1
    for token in _TOKEN.findall(pattern):
        if token.startswith(")") and len(token) > 1:
            raise SearchError(
                f"{_shown(pattern)} repeats a group, which can take for ever: write it without"
            )
        if token in ("(?P=", "(?(") or re.fullmatch(r"\\[1-9]", token):
            raise SearchError(
                f"{_shown(pattern)} refers back to a group, which can take for ever: write it"
                " without"
            )
        ways *= _ways(token)
    if ways > MOST_WAYS:
        raise SearchError(
            f"{_shown(pattern)} has so many repeats or alternatives that it can take for ever: use"
            " fewer"
        )


def _ways(token: str) -> int:
    """Count the ways in which a part of a pattern may match: 1 for a plain character."""
    if token[0] in "*+":
        return TEXT_LIMIT
    if token[0] in "?|":
        return 2
    match = _REPEAT.fullmatch(token)
    if match is None:
        return 1
    low, comma, high = (text[-4:] for text in match.groups())
    if not comma:
        return 1
    return max(1, min(TEXT_LIMIT, int(high) - int(low or 0) + 1)) if high else TEXT_LIMIT


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:59] + "…")
