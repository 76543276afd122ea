"""When the screen is drawn and in how few bytes: link and eye need no more than this.

A timer that looks for changes all the time would cost the box. The framework cuts what it draws
again at the right end of what changed and not at the left. Here both ends are cut. It also says of
every piece of text that its colours are the terminal's own, and takes back what was never set: here
a style is what differs from none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from textual.app import App
from textual.timer import Timer

from tui.devices.state.history import stale_after
from tui.kit.terminal.textual_private import ChopsUpdate, CompositorUpdate
from tui.state.events import Topic, Topics
from tui.state.store import Store

LOOK_S = 1.0
"""How often it is looked at whether figures have grown old."""
GROWS_OLD = frozenset({Topic.DEVICES, Topic.MEMORY})


class Drawing:
    """Has what changed drawn together, and no more often than eye and link need.

    Args:
        app: whose timers are used.
        draw: is called with the parts of the store whose time has come.
    """

    def __init__(self, app: App[Any], draw: Callable[[Topics], None]) -> None:
        self._app = app
        self._draw = draw
        self._coalescer = Coalescer()
        self._timer: Timer | None = None
        self._ended = False

    def changed(self, parts: Topics) -> None:
        """Draw parts of the store when their time has come."""
        self._coalescer.add(parts)
        self._wait()

    def now(self) -> None:
        """Draw at once what has changed."""
        self._draw(self._coalescer.all(time.monotonic()))

    def watch_age(self, store: Store, clock: Callable[[], float]) -> None:
        """Look from now on at whether figures have grown old."""
        self._app.set_interval(LOOK_S, lambda: self._look(store, clock))

    def end(self) -> None:
        """Draw no more: the session still tells of its children's end when the screens are gone."""
        self._ended = True
        if self._timer is not None:
            self._timer.stop()

    def _wait(self) -> None:
        if self._timer is None and not self._ended:
            seconds = self._coalescer.due_in(time.monotonic())
            if seconds is not None:
                self._timer = self._app.set_timer(seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        self._draw(self._coalescer.due(time.monotonic()))
        self._wait()

    def _look(self, store: Store, clock: Callable[[], float]) -> None:
        """Figures grow old where nothing new comes, and only then are drawn for it."""
        sample = store.sample
        if sample and clock() - sample.at > stale_after(sample):
            self.changed(GROWS_OLD)


GATHER_S = 0.03
"""What else changes within this time of a first change is drawn with it."""
PAUSE_S = 0.25
"""Least time between two drawings that no key has asked for."""
PERIOD_S = {
    Topic.DEVICES: 0.9,
    Topic.MEMORY: 0.9,
    Topic.ALLOCATORS: 0.5,
    Topic.WORKLOADS: 0.5,
    Topic.BACKEND: 0.5,
    Topic.LOG: 0.5,
}
"""Least time between two drawings of a part, where that is longer."""


class Coalescer:
    """Collects the parts that changed and gives them out no more often than they may be drawn.

    Times are seconds of a clock that never goes back.
    """

    def __init__(self) -> None:
        self._waiting: set[Topic] = set()
        self._drawn: dict[Topic, float] = {}
        self._last = float("-inf")

    def add(self, parts: Topics) -> None:
        """Take in parts of the store that changed."""
        self._waiting |= parts

    def due_in(self, now: float) -> float | None:
        """In how many seconds to ask for what is due; ``None`` while nothing has changed."""
        if not self._waiting:
            return None
        return max(GATHER_S, min(map(self._time_of, self._waiting)) - now)

    def due(self, now: float) -> Topics:
        """The changed parts whose time has come, or is so near that it is worth no waiting."""
        found = {part for part in self._waiting if self._time_of(part) <= now + GATHER_S}
        if found:
            self._last = now
        return self._take(found, now)

    def all(self, now: float) -> Topics:
        """Everything that changed: for what a key has just asked for."""
        return self._take(set(self._waiting), now)

    def _time_of(self, part: Topic) -> float:
        own = self._drawn.get(part, float("-inf")) + PERIOD_S.get(part, 0.0)
        return max(own, self._last + PAUSE_S)

    def _take(self, found: set[Topic], now: float) -> Topics:
        self._waiting -= found
        self._drawn.update(dict.fromkeys(found, now))
        return frozenset(found)


class FrugalUpdate(CompositorUpdate):
    """Draws what another update draws, cut at the left end too.

    Args:
        update: the framework's.
    """

    def __init__(self, update: ChopsUpdate) -> None:
        self._update = update

    def render_segments(self, console: Console) -> str:
        """The frame as it goes to the terminal."""
        update = self._update
        parts: list[str] = []
        at: int | None = None
        for row, left, right in update.spans:
            line, ends = update.chops[row], update.chop_ends[row]
            for end, (begin, strip) in zip(ends, line.items(), strict=False):
                if strip is None or begin >= right or end <= left:
                    continue
                start, stop = max(left, begin), min(right, end)
                piece = strip.crop(start - begin, stop - begin)
                # Where a piece was drawn in the same row, the column alone tells the place.
                place = f"\x1b[{start + 1}G" if row == at else f"\x1b[{row + 1};{start + 1}H"
                parts += [place, piece.render(console)]
                at = row
        return frugal_styles("".join(parts))


_STYLES = re.compile(r"(?:\x1b\[[0-9;]*m)+")
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
_NONE = ("", "0")
_DEFAULTS = ("39", "49")
"""The terminal's own colours: what a reset leaves."""
_LENGTHS = {"5": 3, "2": 5}
"""How many numbers a colour is, by the second of them."""
_LONG = ("38", "48")


def frugal_styles(drawn: str) -> str:
    """What looks the same with shorter and fewer styles.

    Args:
        drawn: text for a terminal on which no style is set; it leaves none, and sets each style
            after a reset, as Rich does.
    """
    is_set = False

    def shorter(found: re.Match[str]) -> str:
        nonlocal is_set
        *_, last = _STYLE.findall(found[0])
        codes = [] if last in _NONE else _without_defaults(last.split(";"))
        was_set, is_set = is_set, bool(codes)
        if not codes:
            return "\x1b[m" if was_set else ""
        return f"\x1b[{';'.join(['', *codes] if was_set else codes)}m"

    return _STYLES.sub(shorter, drawn)


def _without_defaults(codes: list[str]) -> list[str]:
    """The codes of one style without those that a reset has set; the parts of 38 and 48 stay."""
    kept: list[str] = []
    while codes:
        # 38;5;n and 38;2;r;g;b are one colour each; any of their numbers may be a 39.
        is_long = codes[0] in _LONG and len(codes) > 1
        count = _LENGTHS.get(codes[1], 1) if is_long else 1
        if count > 1 or codes[0] not in _DEFAULTS:
            kept += codes[:count]
        codes = codes[count:]
    return kept
