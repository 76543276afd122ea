"""When to call the user: OOMs of a watched run, the end of a long one, a GPU that fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tui.allocators.findings import describe_full
from tui.core.text import numbers as text
from tui.core.text.commands import name_program
from tui.devices.state.devices import CPU
from tui.devices.state.resident_memory import HOST
from tui.devices.state.watched_processes import TorchProcessState
from tui.kit.terminal.alarm import LONG_S
from tui.watch.runs.ooms import describe_request
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.run_summary import describe_run_end, format_command
from tui.watch.runs.runs import StartedRun
from tui.watch.state.processes import RunProcesses


@dataclass(frozen=True, slots=True)
class WatchedFacts:
    """The facts of a watched run for which an alarm may ring."""

    key: str
    """Identifies the run."""
    name: str
    """Its program."""
    began: float
    """Unix time."""
    ooms: int
    """OOMs of all its processes."""
    oom: str
    """The newest OOM in one line; empty without any."""
    ended: str
    """How it ended; empty while it runs."""


def watched_facts(run: StartedRun, logs: Sequence[ProcessLog], *, is_over: bool) -> WatchedFacts:
    """Return the facts of a run for which an alarm may ring.

    Args:
        run: the run.
        logs: its agents' logs, one per process.
        is_over: it has ended, with or without a record of its end.
    """
    ooms = [oom for log in logs for oom in log.ooms]
    newest = max(ooms, key=lambda oom: oom.at, default=None)
    return WatchedFacts(
        key=str(run.folder),
        name=name_program(format_command(run)),
        began=run.began,
        ooms=len(ooms),
        oom=f"out of memory: {describe_request(newest)}" if newest is not None else "",
        ended=describe_run_end(run, is_running=False) if is_over else "",
    )


class GrowthWarnings:
    """Warns once of each device, and of the host, that a process's growth is about to fill."""

    def __init__(self) -> None:
        self._warned: set[tuple[int, str]] = set()

    def find_new(self, processes: RunProcesses) -> list[str]:
        """Return a line for each growth of a running process that has become known.

        A growth that fills no memory in the near future is left to the end of the run.
        """
        lines: list[str] = []
        for process in processes.seen.values():
            pid = process.description.pid
            for name, allocator in process.devices.items():
                gpu = processes.gpus.get(allocator.placed.id or "")
                if process.gone or gpu is None or (pid, name) in self._warned:
                    continue
                for finding in allocator.trend(ended=False).findings:
                    when = describe_full(finding, gpu.free, process.steps_per_s)
                    if when:
                        self._warned.add((pid, name))
                        lines.append(f"{pid} {name}: {finding.text}; {when}")
            lines += self._find_host(process, processes.host_available)
        return lines

    def _find_host(self, process: TorchProcessState, available: int | None) -> list[str]:
        pid = process.description.pid
        if process.gone or (pid, CPU) in self._warned:
            return []
        finding = process.host.trend(ended=False).finding
        when = describe_full(finding, available, what=HOST) if finding else ""
        if not finding or not when:
            return []
        self._warned.add((pid, CPU))
        return [f"{pid}: {finding.text}; {when}"]


class WatchAlarms:
    """Compares the facts of a watched run with the last call's.

    Args:
        clock: returns the Unix time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._watched: WatchedFacts | None = None

    def compare(self, now: WatchedFacts | None) -> list[str]:
        """Return a line for a new OOM of the open watched run, and one when a long one has ended.

        Args:
            now: the open run; ``None`` if none is open or it is only replayed.
        """
        before, self._watched = self._watched, now
        if now is None or before is None or before.key != now.key:
            return []  # earlier events are no news
        alarms: list[str] = []
        if now.ooms > before.ooms:
            alarms.append(f"{now.name}: {now.oom}")
        if now.ended and not before.ended and self._clock() - now.began >= LONG_S:
            took = text.duration(self._clock() - now.began)
            alarms.append(f"{now.name} {now.ended} after {took}")
        return alarms
