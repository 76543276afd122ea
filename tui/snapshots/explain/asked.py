"""The common input of all advice on one failure."""

from __future__ import annotations

from tui.snapshots.explain.account import Account, Capacity
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.frames import line_words
from tui.snapshots.explain.inventory import CodeLine
from tui.snapshots.explain.leak import Leak
from tui.snapshots.explain.words import round_words


class FailedRequest:
    """The evidence of one failure, with wording for the advice."""

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
        """Where the request was made, `` at oom.py:15``; empty if that is not on record."""
        return "" if self.where is None else f" at {line_words(self.where)}"

    def size(self, *names: str) -> str:
        """Format the total size of the rows with the given names."""
        return round_words(sum(row.bytes for row in self.found.rows if row.name in names))

    def dtypes(self, role: str) -> tuple[str, ...]:
        """Return the dtypes of a role's tensors, from the inventory."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return tuple(kind for part in parts if part.role == role for kind in part.dtypes)

    def owners(self, role: str) -> list[str]:
        """Return the owners of a role's tensors."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return [part.owner for part in parts if part.role == role]
