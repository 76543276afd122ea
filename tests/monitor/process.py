"""The monitor as in the front end: a child process and its pipes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tui.monitor.device_reader import find_absent_paths
from tui.monitor.messages import MONITOR_EVENTS, MonitorHello, Sample, Watch
from workloads.protocol.wire import decode, encode

DEADLINE = 20.0
"""Seconds after which an unmet condition fails a test; far above any real wait."""


class MonitorProcess:
    def __init__(self, env: dict[str, str] | None = None, interval: float = 0.1) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tui.monitor", "serve", "--interval", str(interval)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._errors: list[bytes] = []
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _read_errors(self) -> None:
        assert self.child.stderr is not None
        self._errors.extend(self.child.stderr)

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def errors(self) -> str:
        return b"".join(self._errors).decode()

    def line(self) -> bytes:
        """Return the next line; empty at the end."""
        return self._lines.get(timeout=DEADLINE)

    def hello(self) -> MonitorHello:
        event = decode(self.line(), MONITOR_EVENTS)
        assert isinstance(event, MonitorHello)
        return event

    def sample(self) -> Sample:
        """Return the next sample, after the hello."""
        while True:
            line = self.line()
            assert line, f"the monitor ended: {self.errors}"
            event = decode(line, MONITOR_EVENTS)
            if isinstance(event, Sample):
                assert_nothing_is_absent_without_a_reason(event)
                return event

    def until(self, condition: Callable[[Sample], object]) -> Sample:
        """Return the first sample that satisfies a condition."""
        give_up = time.monotonic() + DEADLINE
        while time.monotonic() < give_up:
            sample = self.sample()
            if condition(sample):
                return sample
        raise AssertionError(f"it did not come about; the last was {sample}")

    def after(self, count: int) -> Sample:
        """Return the sample a number of samples later."""
        return [self.sample() for _ in range(count)][-1]

    def watch(self, *pids: int) -> None:
        self.write(encode(Watch(pids)))

    def write(self, data: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def close_stdin(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()

    def wait(self) -> int:
        return self.child.wait(DEADLINE)

    def end(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait(DEADLINE)
        for reader in self._readers:
            reader.join(DEADLINE)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


def assert_nothing_is_absent_without_a_reason(sample: Sample) -> None:
    for device in sample.devices:
        missing = set(find_absent_paths(device)) - set(device.unavailable)
        assert not missing, f"{device.id}: absent without a reason: {missing}"
        for row in device.processes or ():
            for name in ("user", "command", "memory"):
                assert (getattr(row, name) is None) == (name in row.unavailable), row
    cpu = sample.host.cpu
    for name in ("load_percent", "frequency_mhz"):
        assert (getattr(cpu, name) is None) == (name in cpu.unavailable), cpu
