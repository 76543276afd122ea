"""Start and end the processes that use torch.

Where forking is safe (Linux), torch is imported once here and never used, and each process is a
fork that is ready in milliseconds. Elsewhere each one starts Python anew.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workloads import BOOTSTRAP
from workloads.protocol import process, wire
from workloads.protocol.inventory import Environment
from workloads.protocol.messages import EVENTS
from workloads.protocol.process import Channel

CAN_FORK = sys.platform == "linux"
PROBE_S = 60.0


@dataclass
class ProcessHandle:
    """A process that was started here, and the channel to it."""

    pid: int
    channel: Channel
    reaped: bool = False
    """Its pid may be somebody else's by now."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to what it started."""
        if self.reaped:
            # What it started may live on in its group, whose number is not given anew till then.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            return
        for send in (os.killpg, os.kill):
            try:
                send(self.pid, number)
            except (ProcessLookupError, PermissionError):
                # It has ended, or has not made its group yet: then the pid alone is right.
                continue
            else:
                return

    def reap(self, patience: float) -> int | None:
        """The wait status, or ``None`` if it has not ended within ``patience`` seconds."""
        if self.reaped:
            return 0
        deadline = time.monotonic() + patience
        while True:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.reaped = True
                return 0
            if pid:
                self.reaped = True
                return status
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)

    def close(self) -> None:
        """Close the channel's descriptors."""
        os.close(self.channel.reading)
        os.close(self.channel.writing)


class Launcher:
    """Starts the processes that use torch, in one environment.

    Args:
        malloc: what ``fix_thresholds`` said here; a fork inherits it.
        private: descriptors that no process started here may keep.
        options: arguments of a process that is not forked.
    """

    def __init__(self, malloc: str, private: tuple[int, ...], options: Sequence[str] = ()) -> None:
        self._malloc = malloc
        self._options = options
        self._private = private
        self._hide_cuda = False

    def worker(self) -> ProcessHandle:
        """A process that runs workloads."""

        def target(reading: int, writing: int) -> None:
            from workloads.runner.worker import work

            work(reading, writing)

        return self._start("worker", target)

    def describe_environment(self) -> Environment:
        """The environment, as a process of its own sees it.

        Raises:
            RuntimeError: torch could not look even at the CPU; the text says why.
        """
        environment, problem = self._probe()
        if environment is not None:
            return environment
        self._hide_cuda = True
        environment, again = self._probe()
        if environment is None:
            raise RuntimeError(f"{problem}; without CUDA: {again}")
        reason = f"CUDA is left out: looking at its devices failed: {problem}"
        return replace(environment, unavailable={**environment.unavailable, "devices": reason})

    def _probe(self) -> tuple[Environment | None, str]:
        def target(_reading: int, writing: int) -> None:
            from workloads.runner.probe import probe

            probe(writing, self._malloc)

        child = self._start("probe", target)
        line, deadline = b"", time.monotonic() + PROBE_S
        while not line.endswith(b"\n") and time.monotonic() < deadline:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([child.channel.reading], [], [], left)
            if ready:
                chunk = os.read(child.channel.reading, 65_536)
                if not chunk:
                    break
                line += chunk
        child.close()
        status = child.reap(1.0)
        if status is None:
            child.signal(signal.SIGKILL)
            child.reap(1.0)
        try:
            return wire.decode(line, (Environment,)), ""
        except wire.WireError:
            if status is None:
                return None, f"no answer within {PROBE_S:g} s"
            return None, process.exit_in_words(status)

    def _start(self, mode: str, target: Callable[[int, int], None]) -> ProcessHandle:
        down_out, down_in = os.pipe()
        up_out, up_in = os.pipe()
        inherited = (down_in, up_out, *self._private)
        if CAN_FORK:
            pid = self._fork(target, down_out, up_in, inherited)
        else:
            pid = self._spawn(mode, down_out, up_in)
        os.close(down_out)
        os.close(up_in)
        return ProcessHandle(pid, Channel(up_out, down_in, EVENTS))

    def _fork(
        self,
        target: Callable[[int, int], None],
        reading: int,
        writing: int,
        inherited: tuple[int, ...],
    ) -> int:
        parent = os.getpid()
        # A signal between the fork and its own handling would run the parent's handler in it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            return pid
        status = 1
        try:
            for descriptor in inherited:
                os.close(descriptor)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            process.die_with_parent(parent, signal.SIGKILL)
            if self._hide_cuda:
                os.environ["CUDA_VISIBLE_DEVICES"] = ""
            target(reading, writing)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 (a fork must never return into its parent's code)
            with contextlib.suppress(OSError):
                traceback.print_exc()
                sys.stderr.flush()
        finally:
            os._exit(status)

    def _spawn(self, mode: str, reading: int, writing: int) -> int:
        environment = dict(os.environ)
        if self._hide_cuda:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        return os.posix_spawn(
            sys.executable,
            [sys.executable, BOOTSTRAP, mode, *self._options],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
            ],
        )
