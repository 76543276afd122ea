"""Traces into columns on another core, while this one still reads the rest of a pickle.

Once most of a large file is read, a fork takes the traces as far as they have come and turns their
entries. It knows the file's objects by the same ``id`` as this process does, so whoever reads on
takes its tables over and goes on behind the last entry that it saw.
"""

from __future__ import annotations

import pickle
from dataclasses import field
from functools import partial
from typing import Any

from tui.snapshots import columns
from tui.snapshots.beside import Beside
from tui.snapshots.intern import Interner
from tui.snapshots.model import Trace
from workloads.fact import fact

FROM_BYTES = 32 << 20
"""Of a file on the disk: a smaller one is turned in the time that a fork takes."""
LEAST = 1 << 14
"""Entries for which it is worth the while."""
LOOKS = (1 / 32, 1 / 16, 1 / 8)
"""Parts of a file after which its traces are looked for: early, while there are few objects."""
FORK = 0.6
"""Part of a file after which the fork is made: turning that much takes as long as reading on."""

Raw = Any
"""An object of the file: anything at all."""


@fact
class Turned:
    """The tables and columns of what was read when the fork was made."""

    interner: Interner
    traces: dict[int, Trace]
    """By the ``id`` of the list that their entries stand in, from its first on."""
    examples: dict[int, dict[int, int]] = field(default_factory=dict)
    """By the same: which entry has a stack of which number."""


class Ahead:
    """Begins by itself while a file is read; to be closed, finished or not."""

    def __init__(self) -> None:
        self._unpickler: pickle.Unpickler | None = None
        self._looks = iter(LOOKS)
        self._look = next(self._looks)
        self._traces: list[list[Raw]] = []
        self._beside: Beside[Turned] | None = None

    def watch(self, unpickler: pickle.Unpickler) -> None:
        """Tell what reads the file."""
        self._unpickler = unpickler

    def tell(self, done: int, whole: int) -> None:
        """Tell how many of the bytes are read; the whole is 0 where that is not known."""
        if self._unpickler is None or whole < FROM_BYTES:
            return
        if not self._traces and done >= self._look * whole:
            self._look = next(self._looks, 1.0)
            self._traces = _traces(self._unpickler)
        if done >= FORK * whole:
            self._unpickler = None
            if sum(map(len, self._traces)) >= LEAST:
                self._beside = Beside(partial(_turned, self._traces))

    def turned(self, traces: list[list[Raw]]) -> Turned | None:
        """What was turned of the traces that the file holds; ``None`` where they all are to be.

        Waits for it; the file is to be read by now.
        """
        self._unpickler, self._traces = None, []
        answer = None if self._beside is None else self._beside.found()
        if answer is None:
            return None
        (found,) = answer
        lists = {id(trace): trace for trace in traces}
        # Of an odd file, or one that holds other lists of such entries, nothing is taken over.
        if found.interner.odd or not found.traces.keys() <= lists.keys():
            return None
        for key, examples in found.examples.items():
            for number, place in examples.items():
                found.interner.recognise(number, lists[key][place].get("frames"))
        return found

    def close(self) -> None:
        """End what is not finished and what nobody waits for."""
        if self._beside is not None:
            self._beside.drop()


def _traces(unpickler: pickle.Unpickler) -> list[list[Raw]]:
    # Every list is in the memo, since others may hold it too; what holds the traces is not made
    # before they are.
    made: dict[int, object] = unpickler.memo.copy()  # type: ignore[assignment]
    return [item for item in made.values() if isinstance(item, list) and _holds_entries(item)]


def _holds_entries(items: list[Raw]) -> bool:
    first = items[0] if items else None
    return isinstance(first, dict) and "action" in first and "addr" in first


def _turned(traces: list[list[Raw]]) -> Turned:
    found = Turned(Interner(), {})
    for trace in traces:
        made, _ = columns.fill(trace, found.interner)
        found.traces[id(trace)] = made
        found.examples[id(trace)] = dict(zip(made.stack, range(len(made)), strict=True))
    return found
