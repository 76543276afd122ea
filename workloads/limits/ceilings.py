"""Ceilings: the highest rates measured on this machine. No torch.

A ceiling is valid only under its conditions (machine, processor, threads, versions). The worker
measures missing ones and reports them; the runner stores them for later workers, and the front end
for later runners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workloads.protocol.results import Ceiling


def newest(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the newest ceiling of each kind and conditions, the oldest first.

    A disturbed ceiling replaces an undisturbed one only where it is higher.
    """
    chosen: dict[tuple[str, tuple[tuple[str, str], ...]], Ceiling] = {}
    for ceiling in sorted(ceilings, key=lambda item: item.measured_at):
        key = (ceiling.kind, tuple(sorted(ceiling.under.items())))
        before = chosen.pop(key, None)
        lower = before is not None and ceiling.value <= before.value
        if before is not None and lower and ceiling.disturbed and not before.disturbed:
            ceiling = before
        chosen[key] = ceiling
    return tuple(chosen.values())


class Ceilings:
    """The known ceilings of one process.

    Args:
        on_measured: called with each new measurement.
    """

    def __init__(self, on_measured: Callable[[Ceiling], None] = lambda _ceiling: None) -> None:
        self._known: tuple[Ceiling, ...] = ()
        self._on_measured = on_measured

    @property
    def known(self) -> tuple[Ceiling, ...]:
        return self._known

    def learn(self, ceilings: Iterable[Ceiling]) -> None:
        """Add ceilings that others have measured."""
        self._known = newest((*self._known, *ceilings))

    def add(self, ceiling: Ceiling) -> None:
        """Add a ceiling measured here, and report it."""
        self.learn([ceiling])
        self._on_measured(ceiling)

    def find(self, kind: str, under: dict[str, str]) -> Ceiling | None:
        """Return the ceiling of a kind under exactly these conditions."""
        matching = (item for item in self._known if item.kind == kind and item.under == under)
        return next(matching, None)
