"""The parent of a run's command. Executed by its path, with ``-I -S``: imports nothing else.

Two processes that belong to the run, in a session of their own. The *parent* starts the command,
waits for it and for the processes it leaves behind, and writes the end to ``run.json``. The *drain*
reads the output all the time, so that the command never waits for a disk or a reader, and never
gets an error from one. If the drain is killed, the parent starts another: the pipes stay open. If
the parent is killed, the drain continues, and the end of the run stays unknown.

It gets a socket, receives one JSON object over it (see :mod:`tui.watch.runs.start`) and
answers with one line each of ``pid`` or ``error``, ``log``, ``code``, ``over``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Last, behind the standard library, which no package may shadow.
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from tui.watch.runs.bounded_log import BoundedLog
from tui.watch.runs.drain import Drain, Forward
from tui.watch.runs.on_oom import OnOom

CHECK_S = 5.0
"""Seconds between two checks for ended processes that no signal announced."""
BEAT_S = 60.0
"""Seconds between two heartbeats for other machines that share the folder."""
_PIPE_SIZE = 1 << 20
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_LEFT_ALONE = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ}
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class Supervisor:
    """Starts one command and stays until its last process has ended.

    Args:
        socket: connection to the program that started the run, which may end.
        request: ``folder``, ``command``, ``limit``, ``oom_kills_file``, ``on_oom``, and ``files``
            (the write ends for standard output and standard error, or none).
    """

    def __init__(self, socket: int, request: Mapping[str, Any]) -> None:
        self._socket = socket
        self._folder = Path(request["folder"])
        self._command: list[str] = request["command"]
        self._limit: int = request["limit"]
        self._files: list[int] = request["files"]
        counts: str | None = request.get("oom_kills_file")
        self._oom_kills_file = None if counts is None else Path(counts)
        self._oom_kills_before = self._read_oom_kills()
        on_oom: str | None = request.get("on_oom")
        self._on_oom = None if on_oom is None else OnOom(self._folder, on_oom)
        self._ended = False
        self._drain_failures = 0
        self._heartbeat_file: int | None = None
        """Descriptor of the open file ``heartbeat``."""
        self._next_beat = 0.0

    def run(self) -> None:
        """Run the command to its end."""
        pipes = [_pipe() for _ in self._files or [0]]
        readers, writers = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
        try:
            child = subprocess.Popen(
                self._command,
                stdout=writers[0],
                stderr=writers[-1],
                start_new_session=True,
            )
        except OSError as error:
            self._send({"error": error.errno})
            return
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 2)
        for file in writers:
            os.close(file)
        own = os.getpid()
        self._record(
            {
                "pid": child.pid,
                "start_ticks": _start_ticks(child.pid),
                "supervisor": own,
                "supervisor_ticks": _start_ticks(own),
            }
        )
        self._send({"pid": child.pid})
        control, self._control = os.pipe()
        drain = self._start_drain(readers, control)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._wait(child, drain, readers, control)

    def _wait(
        self, child: subprocess.Popen[bytes], drain: int | None, readers: list[int], control: int
    ) -> None:
        over = False
        while drain is not None or not over:
            pid, status = _reap_child()
            if self._on_oom is not None:
                self._on_oom.poll()
            if pid == 0:
                if self._ended and not over and not _has_children_except(drain, self._on_oom_pid):
                    over = True
                    self._record({"ended": time.time()})
                    self._send({"over": True})
                    continue
                self._touch_heartbeat()
                signal.sigtimedwait({signal.SIGCHLD}, CHECK_S)
            elif pid == drain:
                drain = None
                if status != 0:
                    self._drain_failures += 1
                    time.sleep(min(1.0, 0.01 * self._drain_failures))
                    drain = self._start_drain(readers, control)
            elif pid == child.pid:
                self._ended = True
                code = os.waitstatus_to_exitcode(status)
                child.returncode = code
                end = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}
                over = not _has_children_except(drain, self._on_oom_pid)
                end["oom_kills"] = self._count_new_oom_kills()
                self._record({**end, **({"ended": time.time()} if over else {})})
                with contextlib.suppress(OSError):
                    os.write(self._control, b"e")
                self._send({"code": code, "over": over})

    @property
    def _on_oom_pid(self) -> int | None:
        return None if self._on_oom is None else self._on_oom.pid

    def _read_oom_kills(self) -> int | None:
        """Return how many processes the kernel's OOM killer has ended in the run's cgroup."""
        if self._oom_kills_file is None:
            return None
        try:
            lines = self._oom_kills_file.read_text("ascii", "replace").splitlines()
        except OSError:
            return None
        counts = (line.partition(" ")[2] for line in lines if line.startswith("oom_kill "))
        return next((int(count) for count in counts if count.isdecimal()), None)

    def _count_new_oom_kills(self) -> int | None:
        before, now = self._oom_kills_before, self._read_oom_kills()
        # A counter that decreased belongs to another group.
        return None if before is None or now is None or now < before else now - before

    def _touch_heartbeat(self) -> None:
        """Touch the file ``heartbeat``, if it is time; the lock lasts as long as the run."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + BEAT_S
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
            with contextlib.suppress(OSError):
                if self._heartbeat_file is None:
                    # It stays open: where flock is emulated, closing any descriptor unlocks it.
                    self._heartbeat_file = os.open(self._folder / "heartbeat", flags, 0o600)
                    with contextlib.suppress(OSError):  # not every file system has locks
                        fcntl.flock(self._heartbeat_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.utime(self._heartbeat_file)

    # ---- the drain ----

    def _start_drain(self, readers: list[int], control: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.close(self._control)
            self._drain(readers, control)
            code = 0
        finally:
            os._exit(code)

    def _drain(self, readers: list[int], control: int) -> None:
        """Read the command's output until no process can write any more."""
        log = BoundedLog(self._folder, self._limit, lambda why: self._send({"log": why}))
        forwards = [Forward(file, log) for file in self._files]
        Drain(readers, forwards, log, control, ended=self._ended).run()

    # ---- messages ----

    def _send(self, fact: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the program has ended, or does not read
            os.write(self._socket, json.dumps(fact).encode() + b"\n")

    def _record(self, facts: Mapping[str, Any]) -> None:
        """Write facts to ``run.json``, if that still exists and can be written."""
        path = self._folder / "run.json"
        draft = path.with_name(f".run.json.{os.getpid()}")
        try:
            known = json.loads(path.read_bytes())
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "w") as writer:
                json.dump({**known, **facts}, writer, indent=2)
            draft.replace(path)
        except (OSError, ValueError):  # the disk is full, or the run was removed
            with contextlib.suppress(OSError):
                draft.unlink()


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with contextlib.suppress(OSError):  # the user has too many pipes; the usual size will do
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    return reader, writer


def _reap_child() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def _has_children_except(*others: int | None) -> bool:
    """Return whether the kernel shows processes of the run other than these."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return False
    return any(int(pid) not in others for pid in text.split())


def _start_ticks(pid: int) -> int | None:
    """Return the start time of a process in ticks: proc(5), field 22 of ``stat``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return int(stat.rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _ignore_signals() -> None:
    """Ignore signals that go to a whole job or group, so as to stay while the run is running.

    Uses a handler, not SIG_IGN, which the command would inherit.
    """
    for number in set(signal.Signals) - _LEFT_ALONE - _FAULTS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, lambda *_: None)


def _become_subreaper() -> None:
    """Become the parent of orphans that the command leaves, to see when the last has ended."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def main() -> None:
    """Read the request from the socket, and carry it out."""
    socket = int(sys.argv[1])
    with os.fdopen(os.dup(socket), "rb") as reader:
        request = json.loads(reader.readline())
    _ignore_signals()
    _become_subreaper()
    Supervisor(socket, request).run()


if __name__ == "__main__":
    main()
