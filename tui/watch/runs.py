"""The runs that are kept: a folder for each, with what its command was and what it has left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tui import reports
from tui.watch.process_files import GoneError, ProcessFiles
from workloads.agent import identity
from workloads.protocol.frozen import frozen

KEPT = 20
MOST_BYTES = 5 << 30
_SCHEMA = 1
_RECENT_S = 86_400.0


@frozen
class Run:
    """A command that was run under the watch."""

    folder: Path
    command: tuple[str, ...]
    """Empty for what ``--env`` has started."""
    cwd: str
    began: float
    """Unix time."""
    pid: int | None = None
    start_ticks: int | None = None
    """When the process started, as the kernel counts: with the pid, its identity."""
    ended: float | None = None
    code: int | None = None
    """Its exit code; ``None`` where nobody has seen the end."""
    signal: int | None = None
    """What has ended it."""

    @property
    def log(self) -> Path:
        """Its output."""
        return self.folder / "output.log"

    @property
    def goes_on(self) -> bool:
        """Whether its first process is there."""
        return self.ended is None and _is_there(self.pid, self.start_ticks)


def folder() -> Path:
    """Where runs are kept."""
    return reports.folder() / "runs"


def new_folder() -> Path:
    """A name for the next run's folder, which is not made."""
    return folder() / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def begin(command: Sequence[str]) -> Run:
    """Make a run's folder, and drop the oldest.

    Raises:
        OSError: it cannot be made.
    """
    place = new_folder()
    folder().mkdir(parents=True, mode=0o700, exist_ok=True)
    place.mkdir(mode=0o700)
    run = Run(place, tuple(command), str(Path.cwd()), time.time())
    save(run)
    prune(keep=place)
    return run


def own_pid() -> int:
    """Of this process, which a command may take the place of."""
    return os.getpid()


def drop(run: Run) -> None:
    """Forget a run whose command could not be started."""
    shutil.rmtree(run.folder, ignore_errors=True)


def started(run: Run, pid: int) -> Run:
    """Note which process it is.

    Raises:
        OSError: it cannot be written down.
    """
    ticks = None
    with contextlib.suppress(OSError):
        ticks = int(identity(pid).rpartition("-")[2])
    run = replace(run, pid=pid, start_ticks=ticks)
    save(run)
    return run


def save(run: Run) -> None:
    """Write ``run.json``.

    Raises:
        OSError: it cannot be written.
    """
    facts = {name: value for name, value in vars(run).items() if name != "folder"}
    text = json.dumps({"schema": _SCHEMA, **facts}, indent=2)
    reports.write_private(run.folder / "run.json", text.encode())


def kept() -> list[Run]:
    """All runs that are kept, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        for place in folder().iterdir():
            run = _read(place) if place.is_dir() and not place.is_symlink() else None
            if run is not None:
                found.append(run)
    return sorted(found, key=lambda run: run.began, reverse=True)


def _read(place: Path) -> Run | None:
    try:
        if not (place / "run.json").exists():
            return Run(place, (), "", place.stat().st_mtime)  # of --env
        facts = json.loads((place / "run.json").read_bytes())
        facts.pop("schema")
        return Run(place, tuple(facts.pop("command")), **facts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # not of ours, or of a later version


def prune(keep: Path) -> None:
    """Drop the oldest runs beyond :data:`KEPT` and :data:`MOST_BYTES`; none that goes on."""
    total = 0
    for number, run in enumerate(kept()):
        total += size_of(run.folder)
        beyond = number >= KEPT or total > MOST_BYTES
        if beyond and run.folder != keep and not run.goes_on and not _has_processes(run.folder):
            shutil.rmtree(run.folder, ignore_errors=True)


def size_of(place: Path) -> int:
    """Bytes of a run's files."""
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            total += entry.stat(follow_symlinks=False).st_size
    return total


def _has_processes(place: Path) -> bool:
    """Whether a process of it is there, by the files that the agents have left."""
    # Of another machine with the same folder nothing is known; its files change while it runs.
    for path in place.glob("*.jsonl"):
        pid = path.stem.split("-")[-2:-1]
        with contextlib.suppress(OSError):
            if pid and pid[0].isdigit() and identity(pid[0]) == path.stem:
                return True
            if time.time() - path.stat().st_mtime < _RECENT_S:
                return True
    return False


def _is_there(pid: int | None, ticks: int | None) -> bool:
    if pid is None or ticks is None:
        return False
    try:
        files = ProcessFiles(pid)
    except GoneError:
        return False
    try:
        return files.started == ticks and files.state() not in "ZX"
    except GoneError:
        return False
    finally:
        files.close()
