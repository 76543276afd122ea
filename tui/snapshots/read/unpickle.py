"""A pickle as data: numbers, strings, lists, dicts, tuples; whatever reaches for code is refused.

The C unpickler does the work, and every door of it to code is shut: a global (``GLOBAL``,
``STACK_GLOBAL``, ``INST``, extension codes) and a persistent id end in :class:`SnapshotError`.
Without a global nothing that can be called ever stands on its stack, so ``REDUCE``, ``OBJ``,
``NEWOBJ`` and ``BUILD`` find plain data and fail. No file that torch writes has any of these.

What no subclass can prevent is left to the process that reads (see
:mod:`tui.snapshots.read.memory_limit`): an item or a memo index that claims gigabytes ends at its
memory limit, and a tuple nested a hundred thousand deep used as a key overruns its stack, so
whoever starts that process must take its death for a damaged or hostile file.
"""

from __future__ import annotations

import copyreg
import pickle
from typing import Any, NoReturn

from tui.snapshots.model import text
from tui.snapshots.model.snapshot import SnapshotError
from tui.snapshots.read.source import Bytes, reason

ERRORS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
)
"""What the C unpickler raises over a damaged file, besides running out of bytes or of memory."""

_TORCH_SAVE = 0x1950A86A20F9469CFC6C
_NAME = 80


class _Data(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        asked = f"{text.of(module)[:_NAME]}.{text.of(name)[:_NAME]}"
        raise SnapshotError(
            f"asks for {asked}, which would run code: refused; a snapshot holds data only"
        )

    def persistent_load(self, pid: Any, /) -> NoReturn:
        asked = text.clean(pid)[:_NAME] if isinstance(pid, str) else text.kind(pid)
        raise SnapshotError(
            f"asks for a persistent object, {asked}: refused; a snapshot holds data only"
        )


def looks_like(head: bytes) -> bool:
    """Whether a file begins as a pickle: protocol 2 and later, or a list or dict of 0 and 1."""
    return head[:1] in (b"\x80", b"(", b"}", b"]")


def protocol(head: bytes) -> str:
    """The protocol that a pickle states: ``pickle protocol 4``."""
    stated = head[:1] == b"\x80" and len(head) > 1
    return f"pickle protocol {head[1] if stated else '0 or 1'}"


def load(data: Bytes) -> object:
    """Read one pickle.

    Raises:
        SnapshotError: damaged, truncated, or it asked for something that is not data.
        MemoryError: as it says.
        OSError: the bytes cannot be read.
    """
    # A class that something else once unpickled by an extension code is handed out from there
    # without asking. It is a cache: emptied, it fills again.
    copyreg.clear_extension_cache()
    try:
        found = _Data(data).load()
    except EOFError as error:
        raise SnapshotError(TRUNCATED) from error
    except ERRORS as error:
        why = reason(error)
        if "truncated" in why:
            raise SnapshotError(TRUNCATED) from error
        raise SnapshotError(f"is damaged, or holds more than data: {why}") from error
    if found == _TORCH_SAVE and isinstance(found, int):
        raise SnapshotError("is a file of an old torch.save: weights, not a snapshot")
    return found


TRUNCATED = "ends too early: cut off while it was written or copied; take or copy it again"
"""The line for a file without its end."""
