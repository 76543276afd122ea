"""The runs: a folder for each, what is written into it, which of them stay, which go on."""

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

from tui.core import reports, settings
from tui.core.text import secrets
from tui.devices.allocators.process_files import GoneError, ProcessFiles
from tui.watch.runs.run_end import LastSign, last_sign
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
"""A file that the supervisor touches while the run goes on: all that another machine sees of it."""
KEPT_FOR_GOOD = "kept-for-good"
"""A file in the folder of a run that is never dropped by itself."""
STALE_S = 3600.0
"""After which a heartbeat has stopped; the clocks of two machines may differ."""
_STARTING_S = 60.0
"""That a run is given to write down its process."""
UNHEARD_S = 30 * 86_400.0
"""After which a run of another machine has ended that never had one, by its newest file."""
_NOT_SAVED = ("folder", "problem", "last_sign")
_LAST_PID = (1 << 22) - 1
_LAST_SIGNAL = signal.NSIG - 1
_MOST_RUN_BYTES = 4 << 20
"""Of ``run.json``; a command and its environment are 2 MiB at most."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A command that was run under the watch."""

    folder: Path
    command: tuple[str, ...]
    """What is shown and written of it, its likely secrets masked
    (:mod:`tui.core.text.secrets`); empty for what ``--env`` has started."""
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
    boot: str = ""
    """The kernel's id of that machine's start; empty where that was not written down."""
    supervisor: int | None = None
    """The pid of the process that waits for its end; see :mod:`tui.watch.runs.supervisor`."""
    supervisor_ticks: int | None = None
    problem: str = ""
    """Why its ``run.json`` cannot be used; empty where it can, or is not there."""
    oom_kills: int | None = None
    """Processes of its cgroup that the kernel's OOM killer ended meanwhile; ``None`` where nobody
    has counted."""

    last_sign: LastSign | None = None
    """The last of a run that has ended and whose end nobody waited for; not written down."""

    @property
    def log(self) -> Path:
        """Its output."""
        return self.folder / "output.log"

    @property
    def is_kept_for_good(self) -> bool:
        """Whether ``watch keep`` has marked it: no limit applies to it."""
        return (self.folder / KEPT_FOR_GOOD).exists()

    @property
    def samples(self) -> Path:
        """What was seen of it: see :mod:`tui.watch.runs.samples`."""
        return self.folder / "samples.jsonl"

    @property
    def goes_on(self) -> bool:
        """Whether its first process is there, or any that this one or ``--env`` has started.

        Of another machine's nobody here can tell: no.
        """
        if not self.is_of_this_machine or self.ended is not None:
            return False
        if self.pid is None:
            return bool(processes_of(self.folder))
        # The supervisor stays until the last process has ended, for one a daemon.
        is_here = self.boot in ("", boot_id())
        return self.first_goes_on or (is_here and _is_there(self.supervisor, self.supervisor_ticks))

    @property
    def first_goes_on(self) -> bool:
        """Whether its first process is there."""
        is_here = self.is_of_this_machine and self.boot in ("", boot_id())
        return is_here and _is_there(self.pid, self.start_ticks)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether its processes were, or are, of this machine."""
        return self.host in ("", os.uname().nodename)


def folder() -> Path:
    """Where runs are kept."""
    return reports.folder() / "runs"


def new_folder() -> Path:
    """Return a name for the next run's folder, which is not made, of this second and process."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    others = (f"{name}-{number}" for number in itertools.count(2))
    places = (folder() / each for each in itertools.chain([name], others))
    return next(place for place in places if not place.exists())


def new_run(command: Sequence[str]) -> StartedRun:
    """Make a run's folder, and drop the oldest.

    Raises:
        OSError: it cannot be made.
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


def drop(run: StartedRun) -> None:
    """Forget a run whose command could not be started."""
    shutil.rmtree(run.folder, ignore_errors=True)


def of_process(run: StartedRun, pid: int) -> StartedRun:
    """Return the run with its process, which is to be saved."""
    ticks = None
    with contextlib.suppress(OSError):
        ticks = int(identity(pid).rpartition("-")[2])
    return replace(run, pid=pid, start_ticks=ticks)


def started(run: StartedRun, pid: int) -> StartedRun:
    """Note which process it is.

    Raises:
        OSError: it cannot be written down.
    """
    run = of_process(run, pid)
    save(run)
    return run


def ended(run: StartedRun, code: int) -> StartedRun:
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


def oom_killer_words(run: StartedRun) -> str:
    """Return what the kernel's OOM killer did to a run, in one line; empty for nothing."""
    if not run.oom_kills:
        return ""
    killed = run.signal == signal.SIGKILL or run.code == 128 + signal.SIGKILL
    count = "1 process" if run.oom_kills == 1 else f"{run.oom_kills} processes"
    whom = "the run" if killed and run.oom_kills == 1 else f"{count} of the run's cgroup"
    return (
        f"the kernel's OOM killer ended {whom}: host memory, not the GPU's; fewer loader workers, "
        "less that is kept on the CPU, or a higher memory limit of the container or job"
    )


def save(run: StartedRun) -> None:
    """Write ``run.json``.

    Raises:
        OSError: it cannot be written.
    """
    facts = {name: value for name, value in field_values(run).items() if name not in _NOT_SAVED}
    text = json.dumps({"schema": _SCHEMA, **facts}, indent=2)
    reports.write_private(run.folder / "run.json", text.encode())


def kept() -> list[StartedRun]:
    """All runs that are kept, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        for place in folder().iterdir():
            run = _read(place) if place.is_dir() and not place.is_symlink() else None
            if run is not None:
                found.append(run)
    return sorted(found, key=lambda run: run.began, reverse=True)


def read_again(run: StartedRun) -> StartedRun:
    """Read a run again: whoever started it may have added to it."""
    return _read(run.folder) or run


def named(name: str) -> StartedRun:
    """Return the kept run of that folder name, or of the only one that begins so.

    Raises:
        LookupError: there is none, or several; in one line.
    """
    found = kept()
    exact = [run for run in found if run.folder.name == name]
    fitting = exact or [run for run in found if run.folder.name.startswith(name)]
    if not fitting:
        raise LookupError(f"no stored run is named {name}; gpu-workbench watch lists them")
    if len(fitting) > 1:
        names = ", ".join(run.folder.name for run in fitting[:3])
        more = ", ..." if len(fitting) > 3 else ""
        raise LookupError(f"{len(fitting)} stored runs begin with {name}: {names}{more}; give more")
    return fitting[0]


def _read(place: Path) -> StartedRun | None:
    """Read a run's ``run.json``, which anybody may have written.

    Returns:
        With :attr:`Run.problem` where it cannot be used; ``None`` where there is no folder.
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
        # An older program wrote it as it was given.
        return _with_last_sign(replace(run, command=secrets.command_line(run.command)))
    except FileNotFoundError:
        return (
            _with_last_sign(StartedRun(place, (), "", began)) if place.is_dir() else None
        )  # of --env
    except UntrustedError as error:
        return StartedRun(place, (), "", began, problem=f"run.json cannot be used: {error}")
    except OSError as error:
        why = error.strerror or str(error)
        return StartedRun(place, (), "", began, problem=f"run.json cannot be read: {why}")


def _with_last_sign(run: StartedRun) -> StartedRun:
    if run.ended is not None or may_go_on(run):
        return replace(run, last_sign=None)
    return replace(run, last_sign=last_sign(run.folder, run.pid, run.start_ticks))


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept of runs."""

    runs: int
    runs_bytes: int
    log_bytes: int
    """Of the output of one run."""


def limits() -> Limits:
    """Return the limits that the settings' file and the environment set."""
    chosen, _ = settings.choose(settings.read(settings.path()), os.environ, {})
    names = ("runs_kept", "runs_size", "log_size")
    return Limits(*(int(chosen.value(name)) for name in names))


def prune(keep: Path | None = None) -> None:
    """Drop the oldest runs beyond the limits.

    None that goes on, here or elsewhere. Those that are kept for good do not count.

    Args:
        keep: the folder of a run that stays, for it is about to begin.
    """
    total, most = 0, limits()
    for number, run in enumerate(run for run in kept() if not run.is_kept_for_good):
        total += size_of(run.folder)
        beyond = number >= most.runs or total > most.runs_bytes
        is_kept = run.folder == keep or _is_starting(run)
        if beyond and not is_kept and not may_go_on(run):
            shutil.rmtree(run.folder, ignore_errors=True)


def _is_starting(run: StartedRun) -> bool:
    """Return whether it has just begun and its process is not written down yet."""
    is_new = 0 <= time.time() - run.began < _STARTING_S
    return is_new and run.pid is None and run.ended is None


def keep_for_good(run: StartedRun) -> None:
    """Mark a run that no limit applies to.

    Raises:
        OSError: it cannot be marked.
    """
    (run.folder / KEPT_FOR_GOOD).touch(mode=0o600)


def remove(run: StartedRun) -> None:
    """Remove a run with all its files.

    Raises:
        LookupError: it goes on, or may go on where nobody here can see it.
        OSError: not all of it can be removed.
    """
    if may_go_on(run):
        where = "" if run.is_of_this_machine else f" on {run.host}"
        raise LookupError(f"{run.folder.name} goes on{where}, or may; end it before it is removed")
    shutil.rmtree(run.folder)


def size_of(place: Path) -> int:
    """Bytes of a run's files."""
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            total += entry.stat(follow_symlinks=False).st_size
    return total


def processes_of(place: Path) -> list[int]:
    """Return the processes of a run that are there, by the files that their agents have left."""
    found = []
    for path in place.glob("*.jsonl"):
        pid = path.stem.split("-")[-2:-1]
        with contextlib.suppress(OSError):
            if pid and pid[0].isdigit() and identity(pid[0]) == path.stem:
                found.append(int(pid[0]))
    return found


def may_go_on(run: StartedRun) -> bool:
    """Return whether a process of a run is there, or may be, on this machine or another."""
    if run.goes_on or processes_of(run.folder):
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
    """Return whether a supervisor has locked its heartbeat, here or on a shared disk.

    That it is not locked proves nothing: not every file system has locks, or shares them.
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
    """Return whether an agent of another machine wrote a file: ``--env`` may run anywhere."""
    own = f"{identity().rsplit('-', 2)[0]}-"
    agents = [path for path in place.glob("*.jsonl") if path.name != "samples.jsonl"]
    return any(not path.name.startswith(own) for path in agents)


def _newest(place: Path) -> float:
    """When something in a folder was last written, in Unix time."""
    newest = 0.0
    for path in (place, *place.glob("*")):
        with contextlib.suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return newest


@functools.cache
def boot_id() -> str:
    """Return the kernel's id of this machine's start; empty where it does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _is_there(pid: int | None, ticks: int | None) -> bool:
    if pid is None or ticks is None:
        return False
    try:
        with contextlib.closing(ProcessFiles(pid)) as files:
            return files.started == ticks and files.state() not in "ZX"
    except GoneError:
        return False
