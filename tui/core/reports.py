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

MOST_REPORTS = 20


def folder() -> Path:
    """Return the reports' folder: ``$GPU_WORKBENCH_STATE`` or the platform's state folder."""
    if chosen := os.environ.get("GPU_WORKBENCH_STATE"):
        return Path(chosen)
    return user_state_path("gpu-workbench")


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner can enter, and its missing parents likewise.

    ``Path.mkdir(parents=True)`` applies a mode to the last folder only: under a umask of 002 the
    others would be open to the group.

    Raises:
        OSError: the folder cannot be created.
    """
    missing = list(itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another program was first
            folder.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all.

    Missing folders are created, also for the owner alone.

    Raises:
        OSError: the file cannot be written, for example on a full disk; old contents stay.
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


def save_unprinted(name: str, text: str) -> Path:
    """Save text that could not be printed; nothing deletes the file.

    Args:
        name: the end of the file's name.
        text: the whole text.

    Raises:
        OSError: the file cannot be written, for example on a full disk.
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
    """Write a report, its likely secrets masked, and drop the oldest beyond :data:`MOST_REPORTS`.

    Raises:
        OSError: the report cannot be written, for example on a full disk.
    """
    reports_folder = folder() / "reports"
    path = reports_folder / f"{_stamp()}.txt"
    lines = [title, "", *(f"{name}: {text}" for name, text in facts), "", "stderr:", *stderr]
    lines = [secrets.text(line) for line in lines]
    write_private(path, ("\n".join(lines) + "\n").encode("utf-8", errors="replace"))
    for old in sorted(reports_folder.glob("*.txt"))[:-MOST_REPORTS]:
        old.unlink(missing_ok=True)
    return path
