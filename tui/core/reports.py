"""Crash reports of the children and of the program itself, in the platform's state folder."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_state_path

from tui.core.text import secrets

KEPT = 20


def folder() -> Path:
    """Where reports are kept: ``$GPU_WORKBENCH_STATE`` or the platform's state folder."""
    if chosen := os.environ.get("GPU_WORKBENCH_STATE"):
        return Path(chosen)
    return user_state_path("gpu-workbench")


def make_private_folder(path: Path) -> None:
    """Make a folder that its owner alone can enter, and so all of its parents that are missing.

    ``Path.mkdir(parents=True)`` applies a mode to the last folder only: under a umask of 002 the
    others would be open to the group.

    Raises:
        OSError: it cannot be made.
    """
    missing = list(itertools.takewhile(lambda each: not each.exists(), (path, *path.parents)))
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another program was first
            each.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read, whole or not at all.

    Folders that are missing are made, for the owner alone too.

    Raises:
        OSError: it cannot be written, for one because the disk is full; what was there stays.
    """
    make_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{time.monotonic_ns()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def keep(name: str, text: str) -> Path:
    """Save what could not be printed; nothing deletes it.

    Args:
        name: the end of the file's name.
        text: the whole of it.

    Raises:
        OSError: it cannot be written, for one because the disk is full.
    """
    path = folder() / "results" / f"{_stamp()}-{name}"
    write_private(path, text.encode("utf-8", errors="replace"))
    return path


def _stamp() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns()}"


def describe_failure(error: BaseException | None) -> str:
    """Return the name of an error of our own, and the file of its traceback."""
    trace = "".join(traceback.format_exception(error) if error else ["no exception"])
    try:
        where = f"report: {save('the workbench failed', (), trace.splitlines())}"
    except OSError as refusal:
        where = f"the report was not saved: {refusal}"
    return f"failed: {type(error).__name__}: {error}; {where}"


def save(title: str, facts: Sequence[tuple[str, str]], stderr: Sequence[str]) -> Path:
    """Write a report, its likely secrets masked, and drop the oldest beyond :data:`KEPT`.

    Raises:
        OSError: it cannot be written, for one because the disk is full.
    """
    place = folder() / "reports"
    path = place / f"{_stamp()}.txt"
    lines = [title, "", *(f"{name}: {text}" for name, text in facts), "", "stderr:", *stderr]
    lines = [secrets.text(line) for line in lines]
    write_private(path, ("\n".join(lines) + "\n").encode("utf-8", errors="replace"))
    for old in sorted(place.glob("*.txt"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path
