"""Two states compared by site: what has grown, is new, is gone or has shrunk."""

from __future__ import annotations

from tui.snapshots.facts import Change, Difference, DiffRow, SiteRow
from tui.snapshots.sites import SiteTree
from workloads.fact import fact


@fact
class Side:
    """One of the two states that are compared."""

    name: str
    """The file and the moment."""
    tree: SiteTree
    """What was live, by any grouping; both sides by the same."""
    reserved: int


def diff(a: Side, b: Side) -> Difference:
    """What changed from A to B, by the groups that the trees have at their roots.

    A group is the same on both sides if its key is: a site by file, line and function, so a line
    that moved between two versions of a program is gone and new.
    """
    before, after = _by_key(a.tree), _by_key(b.tree)
    rows = []
    for key in before.keys() | after.keys():
        row = _row(key, before.get(key), after.get(key))
        if row is not None:
            rows.append(row)
    rows.sort(key=lambda row: (-abs(row.bytes_b - row.bytes_a), row.key))
    return Difference(
        a=a.name,
        b=b.name,
        rows=tuple(rows),
        live_a=a.tree.bytes,
        live_b=b.tree.bytes,
        reserved_a=a.reserved,
        reserved_b=b.reserved,
    )


def _by_key(tree: SiteTree) -> dict[str, SiteRow]:
    return {row.key: row for row in tree.listing(limit=len(tree)).rows}


def _row(key: str, before: SiteRow | None, after: SiteRow | None) -> DiffRow | None:
    shown = after or before
    if shown is None:
        return None
    bytes_a, count_a = (before.bytes, before.count) if before else (0, 0)
    bytes_b, count_b = (after.bytes, after.count) if after else (0, 0)
    if (bytes_a, count_a) == (bytes_b, count_b):
        return None
    change: Change
    if before is None:
        change = "new"
    elif after is None:
        change = "gone"
    else:
        change = "grown" if (bytes_b, count_b) > (bytes_a, count_a) else "shrunk"
    return DiffRow(
        change=change,
        key=key,
        label=shown.label,
        kind=shown.kind,
        bytes_a=bytes_a,
        bytes_b=bytes_b,
        count_a=count_a,
        count_b=count_b,
    )
