"""Drive a real runner over real pipes."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from workloads import START
from workloads.declare import user_workloads
from workloads.protocol import messages, wire
from workloads.protocol.messages import Event
from workloads.protocol.results import Ceiling, Comparison, Environment, RunResult, Setting

E = TypeVar("E")

TIMEOUT_S = 60.0
MISBEHAVING = Path(__file__).with_name("misbehaving.py")


class Driver:
    """A runner and its events; ends with the ``with`` block.

    Args:
        script: the script to start, instead of the program's own.
        files: files that declare workloads.
        python: the Python that runs it.
        ceilings: ceilings to send to it, as soon as it is ready.
    """

    def __init__(
        self,
        script: Path | None = None,
        python: str = sys.executable,
        ceilings: tuple[Ceiling, ...] = (),
        files: Sequence[str] = (),
    ) -> None:
        self.process = subprocess.Popen(
            [
                *(python, *(START if script is None else (str(script),)), "serve"),
                *user_workloads.options(files),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._ceilings = ceilings
        self._events: queue.Queue[Event | None] = queue.Queue()
        self.seen: list[Event] = []
        self.environment: Environment | None = None
        self._worker: int | None = None
        self.stderr: list[str] = []
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read, self._drain)
        ]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = wire.decode(line, messages.EVENTS)
            assert isinstance(event, messages.EVENTS)
            self._events.put(event)
        self._events.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.stderr.extend(line.decode(errors="replace") for line in self.process.stderr)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Close its stdin, wait for its end, and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(60)
        for thread in self._threads:
            thread.join(60)
        return code

    def send(self, message: object) -> None:
        """Send one request."""
        assert self.process.stdin is not None
        self.process.stdin.write(wire.encode(message))
        self.process.stdin.flush()

    def until(self, kind: type[E], holds: Callable[[E], bool] = lambda _event: True) -> E:
        """Return the next event of a kind that satisfies the condition."""
        while True:
            event = self._events.get(timeout=TIMEOUT_S)
            if event is None:
                raise AssertionError(f"the runner ended: {''.join(self.stderr[-20:])}")
            self.seen.append(event)
            if isinstance(event, messages.WorkerStarted):
                self._worker = event.pid
            if isinstance(event, kind) and holds(event):
                return event

    def ready(self) -> Environment:
        """Wait until torch is imported."""
        self.environment = self.until(messages.Ready).environment
        self.send(messages.KnownCeilings(self._ceilings))
        return self.environment

    def start_run(self, workload: str, run_id: str = "run", /, **parameters: Setting) -> None:
        """Request a quick run on the CPU."""
        self.send(messages.Run(run_id, workload, "cpu", dict(parameters), {}, "quick"))

    def run(self, workload: str, run_id: str = "run", /, **parameters: Setting) -> RunResult:
        """Run a workload on the CPU, quickly."""
        self.start_run(workload, run_id, **parameters)
        return self.until(messages.Finished, lambda event: event.result.id == run_id).result

    def compare(
        self,
        workload: str,
        flag: str,
        settings: Sequence[bool],
        pairs: int | None = None,
        **parameters: Setting,
    ) -> Comparison:
        """Compare two settings on the CPU."""
        first, second = settings
        request = messages.Compare(
            "compare", workload, "cpu", dict(parameters), flag, (first, second), {}, pairs, "quick"
        )
        self.send(request)
        return self.until(messages.Compared, lambda event: event.done).comparison

    def worker_pid(self) -> int:
        """Return the pid of the newest worker."""
        assert self._worker is not None, "no worker was started"
        return self._worker
