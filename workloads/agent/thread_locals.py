"""Group the same local of the same function over several threads, such as a batch in each.

One thread's batch may be small, and all of them together fill the device.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Callable, Iterable

from .code_files import is_of_user
from .reach import Holding, VariablePlace, Walk

THREADS = "threads"
"""The kind of a group; its length is the number of threads."""
MOST_TENSORS = 7
"""Most tensors of a thread's collection in a group. A longer one may grow, and has its own row."""


class Findings:
    """Collections and variables in the order in which their tensors are counted."""

    def __init__(self) -> None:
        self.holdings: list[Holding] = []
        self.variables: list[tuple[VariablePlace, Any]] = []


class Extent:
    """The numbers of a walk's collections and variables before and after a thread's frames."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._start = self._counts()
        self._end = self._start

    def close(self) -> None:
        """End the extent here."""
        self._end = self._counts()

    def _counts(self) -> tuple[int, int]:
        return len(self._walk.holdings), len(self._walk.variables)

    def holdings(self) -> Iterable[int]:
        """Return the indices of the collections that the thread's frames have led to."""
        return range(self._start[0], self._end[0])

    def variables(self) -> Iterable[int]:
        """Return the same of the variables."""
        return range(self._start[1], self._end[1])


def group_locals(
    walk: Walk, threads: list[Extent], in_graph: Callable[[Any], bool]
) -> tuple[Findings, Findings]:
    """Return a walk's findings in the program's own frames and globals, then those in libraries'.

    What a thread object of Python stores as its arguments are also locals of the program's
    function, whose name says more.

    Args:
        walk: the walk.
        threads: the part of each thread.
        in_graph: returns whether a tensor has a graph. Such a tensor stays on its own.
    """
    groups: dict[tuple[Any, ...], _Group] = {}
    for thread, extent in enumerate(threads):
        for index in extent.variables():
            place, tensor = walk.variables[index]
            if place.frame is not None and not in_graph(tensor):
                group = groups.setdefault(_key(place, ""), _Group())
                group.add(thread, place, [tensor])
                group.variables.append(index)
        for index in extent.holdings():
            holding = walk.holdings[index]
            small = len(holding.tensors) <= MOST_TENSORS and not any(map(in_graph, holding.tensors))
            if small and holding.place.frame is not None:
                group = groups.setdefault(_key(holding.place, holding.kind), _Group())
                group.add(thread, holding.place, holding.tensors)
                group.holdings.append(index)
    merged = [group for group in groups.values() if group.is_of_several]
    grouped_holdings = set(chain.from_iterable(group.holdings for group in merged))
    grouped_variables = set(chain.from_iterable(group.variables for group in merged))
    own, of_libraries = Findings(), Findings()
    is_own = _OwnFiles().contains
    holdings = [
        *(each for at, each in enumerate(walk.holdings) if at not in grouped_holdings),
        *(group.merge() for group in merged),
    ]
    for holding in holdings:
        (own if is_own(holding.place) else of_libraries).holdings.append(holding)
    for at, (place, tensor) in enumerate(walk.variables):
        if at not in grouped_variables:
            (own if is_own(place) else of_libraries).variables.append((place, tensor))
    return own, of_libraries


def _key(place: VariablePlace, kind: str) -> tuple[Any, ...]:
    filename, _, function = place.frame
    return place.name, place.scope, filename, function, kind


class _Group:
    """The tensors that one local of one function holds in several threads."""

    def __init__(self) -> None:
        self.holdings: list[int] = []
        self.variables: list[int] = []
        self._places: list[VariablePlace] = []
        self._threads: set[int] = set()
        self._tensors: dict[int, Any] = {}

    def add(self, thread: int, place: VariablePlace, tensors: list[Any]) -> None:
        self._places.append(place)
        self._threads.add(thread)
        self._tensors.update((id(tensor), tensor) for tensor in tensors)

    @property
    def is_of_several(self) -> bool:
        return len(self._threads) > 1 and len(self._tensors) > 1

    def merge(self) -> Holding:
        holding = Holding(self._places[0], THREADS, len(self._threads))
        holding.tensors = list(self._tensors.values())
        return holding


class _OwnFiles:
    """Tells the program's own files from those of libraries."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def contains(self, place: VariablePlace) -> bool:
        """Return whether a place is in the program's code; a global's place counts as such."""
        if place.frame is None:
            return True
        path = place.frame[0]
        if path not in self._known:
            self._known[path] = is_of_user(path)
        return self._known[path]
