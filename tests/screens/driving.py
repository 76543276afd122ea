"""Keys for an app under test, and the wait until it has answered: no seconds are waited for.

``Pilot.press`` sleeps until the process has used little CPU for 20 ms, twice for each key. What an
app does about a key is done when no message waits anywhere, and that can be asked for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from textual import events
from textual.app import App
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS, key_to_character
from textual.message_pump import MessagePump
from textual.pilot import Pilot

QUIET_ROUNDS = 2
"""A message may just have been taken out of its queue when the queues are looked at."""
MOST_ROUNDS = 500


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until every message that was posted has been handled, and what follows from it drawn.

    A scrolling is an animation, even where it takes no time, and is waited for.

    Timers and workers are not waited for: what they bring about is a condition to wait for.
    """
    quiet = 0
    for _ in range(MOST_ROUNDS):
        # Until all that waits has been handled; then what has changed is laid out and drawn.
        await pilot.pause(0)
        await pilot.app.animator.wait_until_complete()
        quiet = 0 if any(pump.message_queue_size for pump in _pumps(pilot.app)) else quiet + 1
        if quiet == QUIET_ROUNDS or not pilot.app.is_running:
            return
    raise AssertionError(f"the app did not come to rest in {MOST_ROUNDS} rounds")


def _pumps(app: App[Any]) -> Iterator[MessagePump]:
    yield app
    for screen in app.screen_stack:
        yield from screen.walk_children(with_self=True)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, each when all that went before has been handled.

    Args:
        pilot: that of the app.
        keys: names as in a binding, or single characters.
    """
    await settle(pilot)
    for key in keys:
        pilot.app.post_message(key_event(key))
        await settle(pilot)


def key_event(key: str) -> events.Key:
    """What a terminal sends for a key, by its name or by its character."""
    if len(key) > 1:
        return events.Key(key, key_to_character(REPLACED_KEYS.get(key, key)))
    if key.isalnum():
        return events.Key(key, key)
    name = unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
    return events.Key(KEY_NAME_REPLACEMENTS.get(name, name), key)
