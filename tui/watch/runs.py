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
    host: str = ""
    """The machine that it was started on; empty where that was not written down."""

    @property
    def log(self) -> Path:
        """Its output."""
        return self.folder / "output.log"

    @property
    def samples(self) -> Path:
        """What was seen of it: see :mod:`tui.watch.samples`."""
        return self.folder / "samples.jsonl"

    @property
    def goes_on(self) -> bool:
        """Whether its first process is there, or any of what ``--env`` has started.

        Of another machine's nobody here can tell: no.
        """
        if not self.is_of_this_machine or self.ended is not None:
            return False
        if self.pid is None:
            return bool(processes_of(self.folder))
        return _is_there(self.pid, self.start_ticks)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether its processes were, or are, of this machine."""
        return self.host in ("", os.uname().nodename)


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
    host = os.uname().nodename
    run = Run(place, tuple(command), str(Path.cwd()), time.time(), host=host)
    try:
        save(run)
    except OSError:
        drop(run)  # an empty folder would be taken for a run of --env
        raise
    prune(keep=place)
    return run


def no_folder_words(error: OSError) -> str:
    """Why no run can be begun, and what helps."""
    return (
        f"no folder for the run in {folder()}: {error.strerror or error}; set GPU_WORKBENCH_STATE "
        "to a folder with room that may be written to"
    )


def own_pid() -> int:
    """Of this process, which a command may take the place of."""
    return os.getpid()


def drop(run: Run) -> None:
    """Forget a run whose command could not be started."""
    shutil.rmtree(run.folder, ignore_errors=True)


def of_process(run: Run, pid: int) -> Run:
    """The run with its process, which is to be saved."""
    ticks = None
    with contextlib.suppress(OSError):
        ticks = int(identity(pid).rpartition("-")[2])
    return replace(run, pid=pid, start_ticks=ticks)


def started(run: Run, pid: int) -> Run:
    """Note which process it is.

    Raises:
        OSError: it cannot be written down.
    """
    run = of_process(run, pid)
    save(run)
    return run


def ended(run: Run, code: int) -> Run:
    """Note how it has ended, where that can be written down.

    Args:
        run: which one.
        code: as ``Popen.returncode`` tells it: below 0 the signal that has ended it.
    """
    run = replace(
        run,
        ended=time.time(),
        code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
    )
    if run.folder.is_dir():  # somebody may have dropped it: it is not made anew
        with contextlib.suppress(OSError):  # the disk is full
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


def read_again(run: Run) -> Run:
    """What is written down of a run by now, which whoever started it may have added to."""
    return _read(run.folder) or run


def named(name: str) -> Run:
    """The kept run of that folder name, or of the only one that begins so.

    Raises:
        LookupError: there is none, or several; in one line.
    """
    found = kept()
    exact = [run for run in found if run.folder.name == name]
    fitting = exact or [run for run in found if run.folder.name.startswith(name)]
    if not fitting:
        raise LookupError(f"no kept run is named {name}; gpu-workbench watch lists them")
    if len(fitting) > 1:
        names = ", ".join(run.folder.name for run in fitting[:3])
        more = ", ..." if len(fitting) > 3 else ""
        raise LookupError(f"{len(fitting)} kept runs begin with {name}: {names}{more}; give more")
    return fitting[0]


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


def processes_of(place: Path) -> list[int]:
    """The processes of a run that are there, by the files that their agents have left."""
    found = []
    for path in place.glob("*.jsonl"):
        pid = path.stem.split("-")[-2:-1]
        with contextlib.suppress(OSError):
            if pid and pid[0].isdigit() and identity(pid[0]) == path.stem:
                found.append(int(pid[0]))
    return found


def _has_processes(place: Path) -> bool:
    """Whether a process of it is there, or may be."""
    if processes_of(place):
        return True
    # Of another machine with the same folder nothing is known; its files change while it runs.
    for path in place.glob("*.jsonl"):
        with contextlib.suppress(OSError):
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
