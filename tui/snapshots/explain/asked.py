"""What all advice on one failure is made from."""

from __future__ import annotations

from tui.snapshots.explain.account import Account, Capacity
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.frames import line_words
from tui.snapshots.explain.inventory import CodeLine
from tui.snapshots.explain.leak import Leak
from tui.snapshots.explain.words import round_words


class FailedRequest:
    """The evidence of one failure, and the words that advice needs of it."""

    def __init__(
        self,
        evidence: Evidence,
        found: Account,
        leak: Leak | None,
        device: Capacity,
        where: CodeLine | None,
    ) -> None:
        self.evidence = evidence
        self.found = found
        self.leak = leak
        self.device = device
        self.where = where

    @property
    def line(self) -> str:
        """`` at oom.py:15``; empty where it is not on record."""
        return "" if self.where is None else f" at {line_words(self.where)}"

    def size(self, *names: str) -> str:
        """Return the total size of the rows with some names, in words."""
        return round_words(sum(row.bytes for row in self.found.rows if row.name in names))

    def dtypes(self, role: str) -> tuple[str, ...]:
        """Of a role's tensors, as the inventory tells them."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return tuple(kind for part in parts if part.role == role for kind in part.dtypes)

    def owners(self, role: str) -> list[str]:
        """Who has tensors of a role."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return [part.owner for part in parts if part.role == role]
