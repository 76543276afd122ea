"""Full collections wait for a quiet moment, but not for ever."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from tui.ui.app import collector
from tui.ui.app.collector import DUE, LATE_S, MOST_LOOKS, QUIET_S, Collector


class Node:
    """Refers to itself: only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def installed() -> Iterator[Collector]:
    made = Collector()
    before = gc.get_threshold()
    made.install()
    yield made
    made.remove()
    assert gc.get_threshold() == before


def _aged() -> weakref.ref[Node]:
    """Garbage in the oldest generation, where only a full collection looks."""
    node = Node()
    gc.collect()
    seen = weakref.ref(node)
    del node
    for _ in range(DUE):
        gc.collect(1)
    assert seen() is not None
    return seen


async def test_it_collects_in_a_quiet_moment(
    installed: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "LATE_S", 60.0)  # every moment counts as quiet
    seen = _aged()
    installed.look()
    assert seen() is not None, "not at once: somebody may wait for an answer"
    await asyncio.sleep(2 * QUIET_S)
    assert seen() is None


async def test_it_waits_while_something_is_at_work_but_not_for_ever(
    installed: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "LATE_S", -1.0)  # every call counts as late
    seen = _aged()
    for _ in range(MOST_LOOKS - 1):
        installed.look()
        await asyncio.sleep(2 * QUIET_S)
        assert seen() is not None
    installed.look()
    await asyncio.sleep(2 * QUIET_S)
    assert seen() is None


async def test_work_right_before_it_puts_it_off(installed: Collector) -> None:
    seen = _aged()
    installed.look()
    time.sleep(QUIET_S + 10 * LATE_S)
    await asyncio.sleep(QUIET_S)
    assert seen() is not None


async def test_nothing_is_collected_that_is_not_due(installed: Collector) -> None:
    seen = _aged()
    gc.collect(2)
    assert seen() is None
    node = Node()
    gc.collect()
    again = weakref.ref(node)
    del node
    installed.look()
    await asyncio.sleep(2 * QUIET_S)
    assert again() is not None
