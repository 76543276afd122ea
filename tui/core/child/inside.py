"""A child's surroundings: pipes to its parent, an end tied to its parent's, cgroup limits."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from workloads.protocol.change_writer import ChangeWriter
from workloads.protocol.keep_alive import Alive, KeepAlive
from workloads.protocol.process import die_with_parent, separate_protocol, write_whole
from workloads.protocol.wire import WireError, decode, encode

T = TypeVar("T")

LEAST_INTERVAL_S = 0.05
"""Least seconds between two readings of a child."""
_CHUNK = 65_536
_LONGEST_REQUEST = 1 << 20
"""Bytes; longer lines are no requests."""


def until_tick(interval: float, now: float) -> float:
    """Return the seconds until the next reading, after one that has begun at ``now``.

    Readings begin at multiples of the interval, so that all hosts with a common clock are read
    of one moment, arrive together, and are drawn at once.

    Args:
        interval: seconds between two readings; the first two are between half as long and one and
            a half times as long apart.
        now: Unix time.
    """
    ticks = math.floor(now / interval + 0.5) + 1
    return ticks * interval - now


class ParentChannel:
    """Receives requests from the parent and sends it events; ends the process with the parent.

    Reserves standard output for the protocol: other output, also from C, goes to standard error,
    and children inherit neither pipe.
    """

    def __init__(self) -> None:
        self._reading, self._writing = separate_protocol()
        self._write_lock = threading.Lock()
        self._encode: Callable[[object], bytes] = encode

    def send_changes_of(self, kinds: tuple[type, ...]) -> None:
        """Send events of some types as changes of the previous event, from the next one on."""
        self._encode = ChangeWriter(kinds).encode

    def send(self, event: object) -> None:
        """Write one event whole."""
        # With the lock, because the changes refer to the previously written event.
        with self._write_lock:
            self._write(self._encode(event))

    def write(self, line: bytes) -> None:
        """Write one encoded event whole."""
        with self._write_lock:
            self._write(line)

    def _write(self, line: bytes) -> None:
        try:
            write_whole(self._writing, line)
        except ConnectionError:
            quit_now()

    def listen(
        self,
        kinds: tuple[type[T], ...],
        handle: Callable[[T], None],
        silence_s: float | None = None,
    ) -> None:
        """Pass on each request, and end the process when the parent closes the pipe.

        Reads in a thread, because the main loop may be blocked by a parent that does not read.
        Invalid lines are reported on standard error and dropped.

        Args:
            kinds: the accepted types of requests.
            handle: called in that thread with each request.
            silence_s: seconds without a request after which the parent counts as gone, for a link
                that may be cut; ``None`` if the closing of the pipe suffices.
        """
        listening = threading.Thread(
            target=self._listen, args=(kinds, handle, silence_s), name="requests", daemon=True
        )
        listening.start()

    def _listen(
        self, kinds: tuple[type[T], ...], handle: Callable[[T], None], silence_s: float | None
    ) -> None:
        accepted: tuple[type[T | KeepAlive], ...] = (*kinds, KeepAlive)
        rest = b""
        while True:
            readable, _, _ = select.select([self._reading], [], [], silence_s)
            if not readable:
                quit_now()
            try:
                chunk = os.read(self._reading, _CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                quit_now()
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:_LONGEST_REQUEST]
            for line in filter(bytes.strip, lines):
                try:
                    request = decode(line, accepted)
                except WireError as error:
                    complain(f"not a request: {error}")
                    continue
                if not isinstance(request, KeepAlive):
                    handle(request)
                elif request.answer:
                    self.send(Alive(request.number))


def interval_s(text: str) -> float:
    """Parse the seconds between two readings from an option of a child's command.

    Raises:
        argparse.ArgumentTypeError: shorter than :data:`LEAST_INTERVAL_S`.
        ValueError: the text is not a number.
    """
    value = float(text)
    if not (math.isfinite(value) and value >= LEAST_INTERVAL_S):
        raise argparse.ArgumentTypeError(f"at least {LEAST_INTERVAL_S} s")
    return value


def end_by_signals_alone() -> None:
    """Let signals end the process at once, even while C code holds the interpreter.

    Includes SIGHUP, which a parent started with nohup inherited as ignored.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that ends (Linux only)."""
    die_with_parent(os.getppid(), signal.SIGKILL)


def quit_now() -> NoReturn:
    """End at once: a thread that hangs in the driver would keep a regular exit waiting."""
    os._exit(0)


def complain(text: str) -> None:
    """Write to standard error; ignore a closed or missing stream."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text.rstrip("\n") + "\n")


_UNLIMITED = 1 << 60
"""Version 1 writes no limit as a number near 2**63."""


@dataclass(frozen=True)
class MemoryLimit:
    """The narrowest memory limit above this process."""

    total: int
    """Bytes."""
    used: int
    """Bytes in use, without reclaimable file cache."""


class Cgroup:
    """Reads the limits that hold for this process, its ancestors' included."""

    def __init__(
        self, mount: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
    ) -> None:
        """Find the groups that this process is in.

        Args:
            mount: Where the cgroup file systems are mounted.
            membership: The kernel's list of this process's groups.
        """
        self._v2: list[Path] = []
        self._cpu: list[Path] = []
        self._memory: list[Path] = []
        for line in _text(membership).splitlines():
            controllers, path = line.split(":", 2)[1:] if line.count(":") >= 2 else ("", "/")
            if not controllers:
                self._v2 = _upward(mount, path)
            if "cpu" in controllers.split(","):
                self._cpu = _upward(_controller(mount, "cpu", controllers), path)
            if "memory" in controllers.split(","):
                self._memory = _upward(_controller(mount, "memory", controllers), path)

    def cpus(self) -> float | None:
        """Return how many CPUs' worth of time the quota allows; ``None`` if there is no quota."""
        texts = [_text(group / "cpu.max").strip().partition(" ")[::2] for group in self._v2]
        texts += [
            (_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))
            for group in self._cpu
        ]
        quotas = [(_number(quota), _number(period)) for quota, period in texts]
        shares = [quota / period for quota, period in quotas if quota and period and quota > 0]
        return min(shares, default=None)

    def memory(self) -> MemoryLimit | None:
        """Return the narrowest memory limit; ``None`` where there is none."""
        limits = [
            *_limits(self._v2, "memory.max", "memory.current", "inactive_file"),
            *_limits(
                self._memory,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
        ]
        return min(limits, key=lambda limit: limit.total, default=None)

    def oom_kills(self) -> int | None:
        """Return how many processes of this group the kernel's OOM killer has ended.

        The count includes the groups below, whichever limit was reached: ``memory.events`` of
        version 2, ``memory.oom_control`` of version 1 (kernel documentation, cgroup-v2, "Memory
        Interface Files").

        Returns:
            The count; ``None`` if no visible group provides it.
        """
        counts = (_oom_kills_in(file) for file in self._oom_files())
        return next((kills for kills in counts if kills is not None), None)

    def oom_kills_file(self) -> Path | None:
        """Return the file that :meth:`oom_kills` is read from; ``None`` without one."""
        return next((file for file in self._oom_files() if _oom_kills_in(file) is not None), None)

    def _oom_files(self) -> list[Path]:
        files = [*(group / "memory.events" for group in self._v2)]
        return files + [group / "memory.oom_control" for group in self._memory]


def _oom_kills_in(file: Path) -> int | None:
    for line in _text(file).splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill":
            return _number(value)
    return None


def _controller(mount: Path, name: str, together: str) -> Path:
    """Return where a version 1 controller is mounted: by its name, or joined with others."""
    alone = mount / name
    return alone if alone.is_dir() else mount / together


def _upward(mount: Path, path: str) -> list[Path]:
    """Return the group and its visible ancestors; in a container that is the mount itself."""
    group = mount / path.lstrip("/")
    return [*(parent for parent in (group, *group.parents) if mount in parent.parents), mount]


def _limits(groups: list[Path], limit: str, usage: str, cache: str) -> list[MemoryLimit]:
    limits = []
    for group in groups:
        total = _number(_text(group / limit))
        if total is None or total >= _UNLIMITED:
            continue
        used = _number(_text(group / usage))
        if used is not None:
            limits.append(MemoryLimit(total, max(0, used - _statistic(group, cache))))
    return limits


def _statistic(group: Path, name: str) -> int:
    for line in _text(group / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value) or 0
    return 0


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
