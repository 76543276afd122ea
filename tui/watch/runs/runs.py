"""The stored runs: their folders and files, their limits, and which of them still run."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tui.allocators.agents import find_running
from tui.allocators.process_files import GoneError, ProcessFiles
from tui.core import reports, settings
from tui.core.text import secrets
from tui.watch.runs.untrusted import (
    LATEST,
    UntrustedError,
    check_time,
    parse_as,
    parse_object,
    read_start,
)
from workloads.agent import identity
from workloads.protocol.wire import field_values

_SCHEMA = 1
HEARTBEAT = "heartbeat"
"""A file that the supervisor touches during the run: the only sign for other machines."""
PROTECTED = "kept-for-good"
"""A file that marks the folder of a run that is never dropped automatically."""
STALE_S = 3600.0
"""Age in seconds at which a heartbeat counts as stopped; two machines' clocks may differ."""
_STARTING_S = 60.0
"""Seconds that a run has to write down its process."""
UNHEARD_S = 30 * 86_400.0
"""Age in seconds of its newest file at which another machine's run without heartbeat has ended."""
_NOT_SAVED = ("folder", "problem", "last_sign")
_LAST_PID = (1 << 22) - 1
_LAST_SIGNAL = signal.NSIG - 1
_MOST_RUN_BYTES = 4 << 20
"""Most bytes of ``run.json``; a command and its environment are 2 MiB at most."""


_TAIL_BYTES = 64 << 10
"""Bytes at the end of an agent's file; its last event is shorter: it contains one exception."""
_NO_SIGN = frozenset({"run.json", "kept-for-good"})
"""Files that other programs write after the run."""


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last sign of life that a run left."""

    at: float
    """Unix time."""
    is_end: bool
    """True if the first process recorded its own end, which does not include the exit code."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A command that was run under the watch."""

    folder: Path
    command: tuple[str, ...]
    """The command as shown and stored, with likely secrets masked
    (:mod:`tui.core.text.secrets`); empty for a run of ``--env``."""
    cwd: str
    began: float
    """Unix time."""
    pid: int | None = None
    start_ticks: int | None = None
    """Start time of the process in the kernel's ticks: with the pid, its identity."""
    ended: float | None = None
    code: int | None = None
    """Exit code; ``None`` if no program observed the end."""
    signal: int | None = None
    """The signal that ended it."""
    host: str = ""
    """The machine that it was started on; empty if that was not recorded."""
    boot: str = ""
    """The kernel's id of that machine's boot; empty if that was not recorded."""
    supervisor: int | None = None
    """Pid of the process that waits for its end; see :mod:`tui.watch.runs.supervisor`."""
    supervisor_ticks: int | None = None
    problem: str = ""
    """Why its ``run.json`` cannot be used; empty if it can, or does not exist."""
    oom_kills: int | None = None
    """Processes of its cgroup that the kernel's OOM killer ended meanwhile; ``None`` if no
    supervisor counted them."""

    last_sign: LastSign | None = None
    """The last sign of a run whose end no program waited for; not written to ``run.json``."""

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / "output.log"

    @property
    def is_protected(self) -> bool:
        """True if ``watch keep`` has marked it, which exempts it from all limits."""
        return (self.folder / PROTECTED).exists()

    @property
    def samples(self) -> Path:
        """The file with its samples: see :mod:`tui.watch.runs.samples`."""
        return self.folder / "samples.jsonl"

    @property
    def is_running(self) -> bool:
        """True if its first process runs, or any that this program or ``--env`` has started.

        False for another machine's run, which cannot be checked from here.
        """
        if not self.is_of_this_machine or self.ended is not None:
            return False
        if self.pid is None:
            return bool(processes_of(self.folder))
        # The supervisor stays until the last process has ended, such as a daemon.
        is_here = self.boot in ("", boot_id())
        return self.first_process_is_running or (
            is_here and is_process_running(self.supervisor, self.supervisor_ticks)
        )

    @property
    def first_process_is_running(self) -> bool:
        """True if its first process is running."""
        is_here = self.is_of_this_machine and self.boot in ("", boot_id())
        return is_here and is_process_running(self.pid, self.start_ticks)

    @property
    def is_of_this_machine(self) -> bool:
        """True if its processes run, or ran, on this machine."""
        return self.host in ("", os.uname().nodename)


def folder() -> Path:
    """Return the folder that contains the runs' folders."""
    return reports.folder() / "runs"


def new_folder() -> Path:
    """Return a name for a new run's folder, from the second and the pid; creates nothing."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    others = (f"{name}-{number}" for number in itertools.count(2))
    places = (folder() / candidate for candidate in itertools.chain([name], others))
    return next(place for place in places if not place.exists())


def new_run(command: Sequence[str]) -> StartedRun:
    """Create a run's folder, and drop the oldest runs.

    Raises:
        OSError: the folder cannot be created.
    """
    place = new_folder()
    reports.make_private_folder(folder())
    place.mkdir(mode=0o700)
    host = os.uname().nodename
    run = StartedRun(
        place,
        secrets.command_line(command),
        str(Path.cwd()),
        time.time(),
        host=host,
        boot=boot_id(),
    )
    try:
        save(run)
    except OSError:
        drop(run)  # an empty folder would look like a run of --env
        raise
    prune(keep=place)
    return run


def describe_folder_error(error: OSError) -> str:
    """Return why no run can be started, and the remedy."""
    return (
        f"no folder for the run in {folder()}: {error.strerror or error}; set GPU_WORKBENCH_STATE "
        "to a folder with room that may be written to"
    )


def drop(run: StartedRun) -> None:
    """Remove a run whose command could not be started."""
    shutil.rmtree(run.folder, ignore_errors=True)


def of_process(run: StartedRun, pid: int) -> StartedRun:
    """Return the run with its process, for the caller to save."""
    ticks = None
    with contextlib.suppress(OSError):
        ticks = int(identity(pid).rpartition("-")[2])
    return replace(run, pid=pid, start_ticks=ticks)


def record_start(run: StartedRun, pid: int) -> StartedRun:
    """Record a run's process in its folder.

    Raises:
        OSError: ``run.json`` cannot be written.
    """
    run = of_process(run, pid)
    save(run)
    return run


def with_exit_status(run: StartedRun, code: int) -> StartedRun:
    """Return a run with its exit status, encoded as ``Popen.returncode``."""
    return replace(run, code=code if code >= 0 else None, signal=-code if code < 0 else None)


def record_end(run: StartedRun, code: int) -> StartedRun:
    """Record how a run ended, if that can be written.

    Args:
        run: the run that ended.
        code: as ``Popen.returncode``: below 0 it is the signal that ended the command.
    """
    run = replace(with_exit_status(run, code), ended=time.time())
    if run.folder.is_dir():  # another program may have dropped the run: its folder is not recreated
        with contextlib.suppress(OSError):  # the disk is full
            save(run)
    return run


def save(run: StartedRun) -> None:
    """Write ``run.json``.

    Raises:
        OSError: the file cannot be written.
    """
    facts = {name: value for name, value in field_values(run).items() if name not in _NOT_SAVED}
    text = json.dumps({"schema": _SCHEMA, **facts}, indent=2)
    reports.write_private(run.folder / "run.json", text.encode())


def stored_runs() -> list[StartedRun]:
    """Return all stored runs, newest first."""
    runs = []
    with contextlib.suppress(OSError):
        for place in folder().iterdir():
            run = _read(place) if place.is_dir() and not place.is_symlink() else None
            if run is not None:
                runs.append(run)
    return sorted(runs, key=lambda run: run.began, reverse=True)


def read_again(run: StartedRun) -> StartedRun:
    """Read a run again: the program that started it may have updated it."""
    return _read(run.folder) or run


def read_run(place: Path) -> StartedRun | None:
    """Return the run in a folder, which need not be ours; ``None`` without one."""
    return _read(place)


def find_run(name: str) -> StartedRun:
    """Return the stored run with this folder name, or the only one whose name starts with it.

    Raises:
        LookupError: there is none, or several; the message is one line.
    """
    runs = stored_runs()
    exact = [run for run in runs if run.folder.name == name]
    fitting = exact or [run for run in runs if run.folder.name.startswith(name)]
    if not fitting:
        raise LookupError(f"no stored run is named {name}; gpu-workbench watch lists them")
    if len(fitting) > 1:
        names = ", ".join(run.folder.name for run in fitting[:3])
        more = ", ..." if len(fitting) > 3 else ""
        raise LookupError(f"{len(fitting)} stored runs begin with {name}: {names}{more}; give more")
    return fitting[0]


def _read(place: Path) -> StartedRun | None:
    """Read a run's ``run.json``, which is untrusted.

    Returns:
        The run, with a ``problem`` if the file cannot be used; ``None`` without a folder.
    """
    began = 0.0
    try:
        began = min(max(0.0, place.stat().st_mtime), LATEST)
        data = parse_object(read_start(place / "run.json", _MOST_RUN_BYTES), _MOST_RUN_BYTES)
        if data.get("schema") != _SCHEMA:
            raise UntrustedError(f"schema {data.get('schema')!r:.20} is not {_SCHEMA}")
        run = parse_as(StartedRun, {**data, "folder": place, "problem": ""}, "run")
        check_time(run.began)
        check_time(run.ended or 0.0)
        if run.signal is not None and not 0 < run.signal <= _LAST_SIGNAL:
            raise UntrustedError(f"there is no signal {run.signal}")
        for pid in (run.pid, run.supervisor):
            if pid is not None and not 0 < pid <= _LAST_PID:
                raise UntrustedError(f"there is no process {pid}")
        # An older version stored the command unmasked.
        return _with_last_sign(replace(run, command=secrets.command_line(run.command)))
    except FileNotFoundError:
        return (
            _with_last_sign(StartedRun(place, (), "", began)) if place.is_dir() else None
        )  # a run of --env
    except UntrustedError as error:
        return StartedRun(place, (), "", began, problem=f"run.json cannot be used: {error}")
    except OSError as error:
        why = error.strerror or str(error)
        return StartedRun(place, (), "", began, problem=f"run.json cannot be read: {why}")


def _with_last_sign(run: StartedRun) -> StartedRun:
    if run.ended is not None or may_be_running(run):
        return replace(run, last_sign=None)
    return replace(run, last_sign=find_last_sign(run.folder, run.pid, run.start_ticks))


def find_last_sign(folder: Path, pid: int | None, start_ticks: int | None) -> LastSign | None:
    """Find the last sign of a run that has ended without a waiting parent.

    Such a run was started by ``--here``, which becomes the command, or by ``--env``. The agent of a
    process writes an event at the interpreter's end. A process that was killed, or that never
    imported torch, writes none: then the newest of its files is its last sign.

    Args:
        folder: folder of the run.
        pid: its first process; ``None`` if unknown.
        start_ticks: start time of that process, in the kernel's ticks.

    Returns:
        The sign; ``None`` if the folder contains nothing of the run.
    """
    if pid is not None and start_ticks is not None:
        ends = [_end_in(path) for path in folder.glob(f"*-{pid}-{start_ticks}*.jsonl")]
        known = [at for at in ends if at is not None]
        # A process that executed another program has a file for each.
        if known:
            return LastSign(max(known), is_end=True)
    written = 0.0
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name not in _NO_SIGN:
                with contextlib.suppress(OSError):
                    written = max(written, path.lstat().st_mtime)
    return LastSign(min(written, time.time()), is_end=False) if written else None


def _end_in(path: Path) -> float | None:
    """Return the Unix time of the end that an agent recorded; ``None`` if it recorded none."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
        event = parse_object(lines[-1]) if lines else {}
        at = event.get("at")
        if event.get("event") != "end" or isinstance(at, bool) or not isinstance(at, (int, float)):
            return None
        return check_time(float(at))
    except (OSError, UntrustedError):
        return None


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the stored runs."""

    runs: int
    runs_bytes: int
    log_bytes: int
    """Most bytes of one run's output."""


def limits() -> Limits:
    """Return the limits from the settings' file and the environment."""
    chosen, _ = settings.choose(settings.read(settings.path()), os.environ, {})
    names = ("runs_kept", "runs_size", "log_size")
    return Limits(*(int(chosen.value(name)) for name in names))


def prune(keep: Path | None = None) -> None:
    """Drop the oldest runs beyond the limits.

    Live runs, here or elsewhere, stay. Protected runs do not count.

    Args:
        keep: folder of a run that is about to begin and stays.
    """
    total, most = 0, limits()
    for number, run in enumerate(run for run in stored_runs() if not run.is_protected):
        total += size_of(run.folder)
        beyond = number >= most.runs or total > most.runs_bytes
        is_kept = run.folder == keep or _is_starting(run)
        if beyond and not is_kept and not may_be_running(run):
            shutil.rmtree(run.folder, ignore_errors=True)


def _is_starting(run: StartedRun) -> bool:
    """Return whether a run has just begun and its process is not recorded yet."""
    is_new = 0 <= time.time() - run.began < _STARTING_S
    return is_new and run.pid is None and run.ended is None


def protect(run: StartedRun) -> None:
    """Mark a run as exempt from all limits.

    Raises:
        OSError: the mark cannot be written.
    """
    (run.folder / PROTECTED).touch(mode=0o600)


def remove(run: StartedRun) -> None:
    """Remove a run with all its files.

    Raises:
        LookupError: the run is running, or may be running out of reach.
        OSError: some files cannot be removed.
    """
    if may_be_running(run):
        where = "" if run.is_of_this_machine else f" on {run.host}"
        raise LookupError(
            f"{run.folder.name} is running{where}, or may be; end it before you remove it"
        )
    shutil.rmtree(run.folder)


def size_of(place: Path) -> int:
    """Return the total size of a run's files in bytes."""
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            total += entry.stat(follow_symlinks=False).st_size
    return total


def processes_of(place: Path) -> list[int]:
    """Return the running processes of a run, as listed by their agents' files."""
    return [pid for path in place.glob("*.jsonl") if (pid := find_running(path.stem))]


def may_be_running(run: StartedRun) -> bool:
    """Return whether a process of a run is running, or may be, on this machine or another."""
    if run.is_running or processes_of(run.folder):
        return True
    if run.ended is not None:
        return False
    is_here = run.is_of_this_machine and run.boot in ("", boot_id())
    if is_here and not (run.pid is None and _has_agents_elsewhere(run.folder)):
        return False
    if is_locked(run):
        return True
    with contextlib.suppress(OSError):
        return time.time() - (run.folder / HEARTBEAT).stat().st_mtime < STALE_S
    return time.time() - _newest(run.folder) < UNHEARD_S


def is_locked(run: StartedRun) -> bool:
    """Return whether a supervisor has locked the run's heartbeat, here or on a shared disk.

    An unlocked heartbeat proves nothing: not every file system has locks, or shares them.
    """
    try:
        file = os.open(run.folder / HEARTBEAT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def _has_agents_elsewhere(place: Path) -> bool:
    """Return whether another machine's agent wrote a file: ``--env`` may run anywhere."""
    own = f"{identity().rsplit('-', 2)[0]}-"
    agents = [path for path in place.glob("*.jsonl") if path.name != "samples.jsonl"]
    return any(not path.name.startswith(own) for path in agents)


def _newest(place: Path) -> float:
    """Return the Unix time of the last change to a file in a folder."""
    newest = 0.0
    for path in (place, *place.glob("*")):
        with contextlib.suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return newest


@functools.cache
def boot_id() -> str:
    """Return the kernel's id of this machine's boot; empty if it is not available."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_process_running(pid: int | None, ticks: int | None) -> bool:
    """Return whether a process runs that has this pid and started at this tick of the kernel."""
    if pid is None or ticks is None:
        return False
    try:
        with contextlib.closing(ProcessFiles(pid)) as files:
            return files.started == ticks and files.state() not in "ZX"
    except GoneError:
        return False
