"""How long a program takes from its start to a screen that can be used."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tests.terminal.terminal import PATIENCE_S, Terminal

QUIET_S = 0.1
"""After so long without a byte, what has arrived is drawn and looked at."""


class Arrivals(Terminal):
    """Notes when which bytes arrive, and draws them later.

    An emulator in Python takes tens of milliseconds for a screen, the more the more is on it: that
    is neither program's time.
    """

    def usable_after(self, *words: str) -> float:
        """Seconds from the start until the bytes had arrived that put all words on the screen."""
        arrived: list[tuple[float, bytes]] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            taken = self.take(QUIET_S)
            if taken:
                arrived.append((time.perf_counter() - self.started, taken))
                continue
            for seconds, chunk in arrived:
                self.draw(chunk)
                text = self.text()
                if all(word in text for word in words):
                    return seconds
            arrived.clear()
        raise AssertionError(f"the screen never came:\n{self.text()}")


def usable_after(
    argv: Sequence[str],
    words: Sequence[str],
    *,
    size: tuple[int, int] = (80, 24),
    variables: Mapping[str, str] | None = None,
    quit_key: str = "\x11",
) -> float:
    """Start a program, wait until all words are on its screen, quit it; seconds until then."""
    with Arrivals(argv, *size, variables) as terminal:
        seconds = terminal.usable_after(*words)
        terminal.keys(quit_key)
        terminal.exit_code()
    return seconds
