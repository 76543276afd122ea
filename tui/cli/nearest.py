"""What was probably meant by a name that is not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

FEW = 12
"""So many names can be listed in a line of an error."""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is most like one that was typed; ``None`` where none is.

    A beginning or a part of a name counts for it, and so do a few wrong letters.
    """
    typed = name.lower()
    begins = [each for each in known if len(typed) > 1 and each.lower().startswith(typed)]
    close = difflib.get_close_matches(typed, known, n=1)
    parts = [each for each in known if len(typed) > 2 and typed in each.lower()]
    return next(iter([*begins, *close, *parts]), None)


def not_known(kind: str, name: str, known: Sequence[str], where: str = "") -> str:
    """A line about a name that is not known: the nearest one, or else which there are.

    Args:
        kind: of thing that is named.
        name: as typed.
        known: those that there are.
        where: all of them are told, where they are too many for a line.
    """
    meant = nearest(name, known)
    if meant is not None:
        return f"no {kind} {name} (did you mean {meant}?)"
    if len(known) > FEW and where:
        return f"no {kind} {name}: {where} names all {len(known)}"
    return f"no {kind} {name}: one of {', '.join(known)}"


def flags_in(text: str) -> list[str]:
    """The long options that a help names."""
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)))
