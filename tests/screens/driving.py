"""Press keys in an app under test, and wait for its response without sleeping.

``Pilot.press`` sleeps until the process has used little CPU for 20 ms, twice for each key. Here a
response is complete when every message queue is empty, which can be checked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from textual import events
from textual.app import App
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS, key_to_character
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout

QUIET_ROUNDS = 2
"""A message may be between its queue and its handler when the queues are checked."""
MOST_ROUNDS = 500


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until every posted message has been handled, and its effects drawn.

    Scrolling is an animation, even of zero duration, so this waits for it too.

    Timers and workers do not count: tests wait for their effects with a condition.
    """
    quiet = 0
    for _ in range(MOST_ROUNDS):
        # Until all pending messages are handled; then changes are laid out and drawn.
        try:
            await pilot.pause(0)
        except WaitForScreenTimeout:
            if pilot.app.is_running:
                raise
            return  # it ended meanwhile, and handles no message any more
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
    """Press keys, each after the handling of all earlier ones.

    Args:
        pilot: the app's pilot.
        keys: names as in a binding, or single characters.
    """
    await settle(pilot)
    for key in keys:
        pilot.app.post_message(key_event(key))
        await settle(pilot)


def key_event(key: str) -> events.Key:
    """Return a terminal's input for a key, by its name or by its character."""
    if len(key) > 1:
        return events.Key(key, key_to_character(REPLACED_KEYS.get(key, key)))
    if key.isalnum():
        return events.Key(key, key)
    name = unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
    return events.Key(KEY_NAME_REPLACEMENTS.get(name, name), key)
