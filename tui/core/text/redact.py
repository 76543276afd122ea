"""Removal of user names from text.

Equal texts give equal results. In a path, the name of the user becomes ``user``; ``/root``
identifies nobody and stays. A name found in a home directory is also replaced as a whole part of
other paths, such as ``/data/jane/run``. Our own home directory may be anywhere: elsewhere than in
one of the usual folders it becomes ``~``.
"""

from __future__ import annotations

import dataclasses
import getpass
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar, cast

NAME = "user"
"""Replacement for the name of a user."""
HOST = "host"
"""Replacement for the name of a host."""
T = TypeVar("T")

_HOMES = re.compile(
    r"(?P<before>"
    r"(?:/mnt/[a-z])?[\\/]+(?:home|users|Users|Documents and Settings)[\\/]+"
    r"|/(?:var/home|usr/home|export/home|nfs/home|private/home|Volumes/home)/+"
    r"|(?<!\w)~(?=[A-Za-z_][\w.-]*[\\/])"
    r")(?P<name>[^\\/:;,\"'<>|\s()\[\]{}]+(?: [^\\/:;,\"'<>|\s()\[\]{}]+(?=[\\/]))?)",
    re.IGNORECASE,
)
_TEMPORARY = re.compile(r"(?P<before>torchinductor_|pytest-of-|hsperfdata_)(?P<name>[^\\/\s]+)")
_SHARED = frozenset(
    ("root", NAME, "public", "shared", "all users", "default", "runner", "ubuntu", "home", "users")
)
"""Names that identify nobody."""


def read_own_name() -> str:
    """Return the name of our own user; empty without one, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def read_own_home() -> str:
    """Return our own home directory; empty without one."""
    try:
        return str(Path.home())
    except RuntimeError:
        return ""


class Redactor:
    """Replaces user names; created for one file, after collecting every name in it."""

    def __init__(self, texts: Iterable[str], *, home: str = "", name: str = "") -> None:
        """Collect the names.

        Args:
            texts: paths, and any text that may hold paths.
            home: our own home directory; empty for one that is only in the usual folders.
            name: our own user's name; empty if it is only in the texts.
        """
        self._home = _compile_home(home)
        names: set[str] = {name}
        for text in texts:
            for pattern in (_HOMES, _TEMPORARY):
                names.update(match["name"] for match in pattern.finditer(text))
        # A short common word would also be replaced where it is no name.
        self.names = tuple(
            sorted(name for name in names if name.lower() not in _SHARED and len(name) > 2)
        )
        self._names = whole_words(self.names, within=r"\w.-")

    def __call__(self, text: str) -> str:
        """Return a text without user names."""
        if self._home is not None:
            text = self._home.sub("~", text)
        text = _HOMES.sub(_replaced, text)
        text = _TEMPORARY.sub(_replaced, text)
        return text if self._names is None else self._names.sub(NAME, text)

    def all_of(self, value: T) -> T:
        """Redact every text within a value, including the keys of dicts: see :func:`with_texts`."""
        return with_texts(value, self, keys=True)


def _compile_home(home: str) -> re.Pattern[str] | None:
    """Return a pattern of a home directory that the other rules leave; ``None`` if it may stay."""
    home = home.rstrip("/")
    if len(home) < 2 or home == "/root" or _HOMES.fullmatch(home):
        return None
    return re.compile(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])")


def _replaced(match: re.Match[str]) -> str:
    if match["name"].lower() in _SHARED:
        return match[0]
    return match["before"] + NAME


def whole_words(
    names: Iterable[str], within: str = r"\w", *, any_case: bool = True
) -> re.Pattern[str] | None:
    """Return a pattern that finds any of the names as a whole word; ``None`` without names.

    Args:
        names: names as written; names of one character are left out.
        within: the characters of a word, as in a character class.
        any_case: ignore upper and lower case.
    """
    longest_first = sorted({name for name in names if len(name) > 1}, key=len, reverse=True)
    if not longest_first:
        return None
    alternatives = "|".join(map(re.escape, longest_first))
    return re.compile(
        rf"(?<![{within}])(?:{alternatives})(?![{within}])", re.IGNORECASE if any_case else 0
    )


def with_texts(value: T, change: Callable[[str], str], *, keys: bool) -> T:
    """Return a value with every text within it changed: in dataclasses, dicts, lists and tuples.

    Args:
        value: data; values of other types are unchanged.
        change: returns the replacement of a text.
        keys: also change the keys of dicts; false if they are names of fields.
    """

    def of(item: object) -> object:
        if isinstance(item, str):
            return change(item)
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = dataclasses.fields(item)
            return type(item)(**{field.name: of(getattr(item, field.name)) for field in fields})
        if isinstance(item, dict):
            return {of(key) if keys else key: of(content) for key, content in item.items()}
        if isinstance(item, list):
            return [of(content) for content in item]
        if isinstance(item, tuple):
            return tuple(of(content) for content in item)
        return item

    return cast(T, of(value))
