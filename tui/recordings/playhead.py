"""Where a recording is being played: a clock that can be paused, hastened and set back. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

SLOWEST, FASTEST = 1 / 8, 256.0
"""Times the speed of life, as far as the keys go."""
AT_ONCE = math.inf
"""The speed at which nothing is waited for."""


class Playhead:
    """A position in a recording, seconds from its beginning, which moves by itself.

    Args:
        length: seconds of the recording.
        speed: times the speed of life; :data:`AT_ONCE` to be moved by :meth:`reached` alone.
        now: seconds since any fixed moment.
    """

    def __init__(
        self, length: float, speed: float = 1.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._length = length
        self._now = now
        self._speed = speed
        self._position, self._since = 0.0, now()
        self.paused = False

    @property
    def speed(self) -> float:
        """Times the speed of life, while it is not paused."""
        return self._speed

    @property
    def position(self) -> float:
        """Seconds from the beginning, at most the recording's length."""
        if self.paused or self._speed == AT_ONCE:
            return self._position
        gone = (self._now() - self._since) * self._speed
        return min(self._length, self._position + gone)

    @property
    def ended(self) -> bool:
        return self.position >= self._length

    def until(self, at: float) -> float | None:
        """Seconds of life until a position is reached: 0 where it is, ``None`` while paused."""
        if self.paused:
            return None
        if self._speed == AT_ONCE:
            return 0.0
        return max(0.0, (at - self.position) / self._speed)

    def reached(self, at: float) -> None:
        """What lies at a position has been played."""
        if self._speed == AT_ONCE:
            self._position = max(self._position, at)

    def pause(self, wanted: bool) -> None:
        """Stand still, or go on from here."""
        self._hold()
        self.paused = wanted

    def set_speed(self, speed: float) -> None:
        """Go on at another speed from here."""
        self._hold()
        self._speed = speed

    def faster(self) -> None:
        """Twice the speed, up to :data:`FASTEST`."""
        self.set_speed(max(self._speed, min(FASTEST, self._speed * 2)))

    def slower(self) -> None:
        """Half the speed, down to :data:`SLOWEST`."""
        self.set_speed(max(SLOWEST, min(FASTEST, self._speed / 2)))

    def rewind(self) -> None:
        """Go back to the beginning."""
        self._position, self._since = 0.0, self._now()

    def _hold(self) -> None:
        self._position, self._since = self.position, self._now()


def speed_text(speed: float) -> str:
    """``2x``, ``1/4x`` or ``max``."""
    if speed == AT_ONCE:
        return "max"
    if speed < 1 and (1 / speed).is_integer():
        return f"1/{1 / speed:.0f}x"
    return f"{speed:g}x"
