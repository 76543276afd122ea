"""The account of a memory as a tree: each figure below the one that it is a part of. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tui.core.text import glyphs
from tui.devices.memory import Term
from tui.devices.memory.model import get_value

ROOT, ACTIVE, PENDING = "total", "active", "pending"
"""Keys: of the whole memory, and of what :func:`build_tree` says."""
_WHOLES = {
    "used": ROOT,
    "driver": ROOT,
    "free": ROOT,
    "available": ROOT,
    "process": "used",
    "ours": "used",
    "others": "used",
    "unattributed": "used",
    "resident": "used",
    "unique": "resident",
    "shared": "resident",
    "reserved": "process",
    "context": "process",
    "allocated": "reserved",
    "workspace": "reserved",
    "cached": "reserved",
    "requested": "allocated",
    "rounding": "allocated",
    PENDING: "cached",
    "stuck": "cached",
    "releasable": "cached",
}
"""By the key of a term, the key of the term that it is a part of."""
_PARTS_OF_ACTIVE = ("requested", "rounding")
TREE_KEYS = frozenset({ROOT, ACTIVE, *_WHOLES})
"""Keys of the terms that have a place in the tree."""


class TreeRow(NamedTuple):
    """A figure with its place in the tree."""

    term: Term
    lead: str
    """The branches that lead to it."""
    label: str
    whole: Term | None = None
    """The shown term that it is a part of."""


def build_tree(terms: Sequence[Term]) -> list[TreeRow]:
    """Return the rows of the tree, each term before its parts.

    If a term's whole is not shown, the term is a part of the whole's own whole. What the program
    requested is a part of the allocated blocks, unless freed blocks are pending, because a stream
    may still use them: requests contain these, but allocated blocks do not. Then requests are parts
    of ``active``, beside the tree.

    Args:
        terms: the shown terms; the parts of a term keep their order.
    """
    shown = {term.key: term for term in terms if term.key in TREE_KEYS}
    wholes = dict(_WHOLES)
    pending = get_value(shown[PENDING].bytes) if PENDING in shown else None
    if pending:
        wholes |= dict.fromkeys(_PARTS_OF_ACTIVE, ACTIVE)
    else:
        shown.pop(ACTIVE, None)
        shown.pop(PENDING, None)
    parts: dict[str, list[Term]] = defaultdict(list)
    for term in shown.values():
        parts[_find_whole(term.key, wholes, shown)].append(term)
    roots = sorted(parts[""], key=lambda term: term.key != ROOT)
    return [
        row
        for root in roots
        for row in (TreeRow(root, "", root.label), *_draw_parts(root, parts, lead=""))
    ]


def list_flat(terms: Sequence[Term]) -> list[TreeRow]:
    """Return the rows of terms below each other."""
    return [TreeRow(term, "", term.label) for term in terms]


def _find_whole(key: str, wholes: Mapping[str, str], shown: Collection[str]) -> str:
    """Return the key of the nearest shown term that contains a term; empty for a root."""
    whole = wholes.get(key, "")
    while whole and whole not in shown:
        whole = wholes.get(whole, "")
    return whole


def _draw_parts(whole: Term, parts: Mapping[str, Sequence[Term]], lead: str) -> list[TreeRow]:
    """Return the rows below a term: none for a part that is all of it and has no parts itself.

    Args:
        whole: the term.
        parts: the parts of each term, by its key.
        lead: the branches that pass the rows.
    """
    drawn = glyphs.GLYPHS
    own = parts.get(whole.key, ())
    values = {get_value(term.bytes) for term in (whole, *own)}
    if len(own) == len(values) == 1 and own[0].key not in parts:
        return []
    rows: list[TreeRow] = []
    for number, part in enumerate(own):
        ends = number == len(own) - 1
        branch = drawn.corner if ends else drawn.branch
        label = part.label.removeprefix(f"{whole.label}, ")
        rows.append(TreeRow(part, f"{lead}{branch} ", label, whole))
        rows += _draw_parts(part, parts, f"{lead}{' ' if ends else drawn.wall} ")
    return rows
