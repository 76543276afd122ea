"""Waits of a session without a screen, and the workloads and devices that a command names."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tui.core.text import numbers as fmt
from tui.devices.state.devices import CPU
from tui.headless.catalogue import unknown_name, unknown_workload
from tui.kit.command_line.output import Failure, UsageError, not_known
from tui.kit.command_line.progress import ProgressLine
from tui.kit.terminal.ending import SIGNALS, handle_signals
from tui.runs.state.parameters import Invalid, Valid, parse_sweep
from tui.runs.views.workload_state import format_phase

if TYPE_CHECKING:
    from tui.runs.session.session import Session
    from tui.runs.state.state import RunsState

INTERVAL_S = 0.5
"""Seconds between two samples of the devices during runs."""
ALL = "all"
"""The ``--device`` that stands for all GPUs."""
END_S = 3.0
"""Seconds after a signal for measurements to arrive."""


class Waiter:
    """Waits for a condition on the states, and for signals and errors that end the wait.

    Args:
        session: the session whose states change.
        signals: handle the signals; false if the caller passes them to :meth:`note_signal`.
    """

    def __init__(self, session: Session, *, signals: bool = True) -> None:
        self._session = session
        self._changed = asyncio.Event()
        self.signalled: signal.Signals | None = None
        self._error: BaseException | None = None
        session.state.bus.on_change(lambda _parts: self._changed.set())
        session.on_error(self._note_error)
        if signals:
            handle_signals(SIGNALS, self.note_signal)

    def note_signal(self, number: signal.Signals) -> None:
        """End the wait because of a signal."""
        self.signalled = number
        self._changed.set()

    def wake(self) -> None:
        """Check the condition again, because something other than the states has changed."""
        self._changed.set()

    def _note_error(self, error: BaseException) -> None:
        self._error = error
        self._changed.set()

    async def until(self, condition: Callable[[], bool], report: Callable[[], None]) -> bool:
        """Wait for a condition; return ``False`` after a signal.

        Args:
            condition: returns whether to stop waiting.
            report: called at each change until then.

        Raises:
            Failure: an internal error, after which it would wait forever.
        """
        while not condition():
            if self._error is not None:
                text = f"failed: {type(self._error).__name__}: {self._error}"
                raise Failure(text) from self._error
            if self.signalled is not None:
                return False
            self._changed.clear()
            report()
            await self._changed.wait()
        return True

    async def catalogue(self, progress: ProgressLine) -> bool:
        """Wait for the catalogue, which arrives before torch; return ``False`` after a signal."""
        state = self._session.state.runs
        reached = await self.until(
            lambda: state.hello is not None or state.runner.status in ("unusable", "restarting"),
            lambda: self._show_start(progress),
        )
        progress.clear()
        return reached and state.hello is not None

    def _show_start(self, progress: ProgressLine) -> None:
        runner = self._session.state.runs.runner
        # A first start has a reason only if the runner is silent.
        silent = runner.status == "starting" and runner.reason
        words = f"{runner.reason}; {runner.advice}" if silent else ""
        progress.show_silence(words, f"runner: {runner.status} {runner.reason}")

    async def ready(self, progress: ProgressLine) -> bool:
        """Wait until the runner has imported torch; return ``False`` after a signal.

        Raises:
            Failure: torch is unusable.
        """
        state = self._session.state.runs

        def is_ready() -> bool:
            return state.machine.environment is not None or state.runner.status in (
                "unusable",
                "restarting",
            )

        reached = await self.until(is_ready, lambda: self._show_start(progress))
        progress.clear()
        if reached and state.machine.environment is None:
            runner = state.runner
            report = f" (report: {runner.report})" if runner.report else ""
            # This command ends with the runner, which only a screen restarts.
            advice = "" if runner.status == "restarting" else runner.advice
            raise Failure("; ".join(filter(None, (runner.reason, advice))) + report)
        return reached

    async def finish(self, progress: ProgressLine) -> None:
        """Cancel all runs after a signal, and wait briefly for their measurements."""
        self._session.cancel()
        deadline = asyncio.get_running_loop().time() + END_S
        while self._session.state.runs.pending():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:
                break
        progress.clear()

    def exit_code(self, code: int) -> int:
        """Return 128 plus the signal that ended the command, or ``code``."""
        return code if self.signalled is None else 128 + int(self.signalled)


def choose_interval(devices: Sequence[str]) -> float | None:
    """Return the seconds between two samples of the monitor; ``None`` for no monitor.

    A monitor samples the clocks of GPUs, but would disturb the timings of the CPU.
    """
    return None if set(devices) == {CPU} else INTERVAL_S


def choose_workloads(
    state: RunsState, names: Sequence[str], groups: Sequence[str] = (), *, everything: bool = False
) -> list[str]:
    """Return the requested workloads, in the order of the catalogue.

    Args:
        state: the state of the runs.
        names: names of workloads.
        groups: groups to include completely.
        everything: include the whole catalogue.

    Raises:
        UsageError: a name or a group is not in the catalogue.
        Failure: likewise, but an unreadable file may declare it.
    """
    catalogue = state.catalogue
    known = [info.name for info in catalogue]
    known_groups = list(dict.fromkeys(info.group for info in catalogue))
    for name in names:
        if name not in known:
            if "=" in name:
                raise UsageError(f"no workload {name} (did you mean --set {name}?)")
            raise unknown_workload(state.hello, name, catalogue)
    for group in groups:
        if group not in known_groups:
            raise unknown_name(state.hello, "group", group, known_groups)
    return [
        info.name for info in catalogue if everything or info.name in names or info.group in groups
    ]


def set_parameters(
    session: Session, names: Sequence[str], texts: Mapping[str, str], *, sweeps: bool = False
) -> None:
    """Set each parameter in every selected workload that has it.

    Args:
        session: the session to change.
        names: names of the selected workloads.
        texts: typed values by parameter.
        sweeps: allow several values of a parameter.

    Raises:
        UsageError: a value is not allowed, or none of the workloads has a parameter.
    """
    infos = [info for info in session.state.runs.catalogue if info.name in names]
    for key in texts:
        if not any(key == parameter.name for info in infos for parameter in info.parameters):
            known = sorted({parameter.name for info in infos for parameter in info.parameters})
            raise UsageError(f"--set {key}: {not_known('parameter', key, known)}")
    for info in infos:
        own = {parameter.name for parameter in info.parameters}
        parsed = parse_sweep(info, {key: text for key, text in texts.items() if key in own})
        if isinstance(parsed, Invalid):
            raise UsageError(f"--set {'; '.join(parsed.errors.values())}")
        if isinstance(parsed, Valid):
            session.set_parameters(info.name, parsed.parameters)
        elif not sweeps:
            several = " ".join(f"{key}={text}" for key, text in parsed.texts.items())
            raise UsageError(f"--set {several}: one value each; sweeps are for the run command")
        else:
            session.set_sweep(info.name, parsed)


def choose_devices(session: Session, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the torch devices to run on; ``all`` means all GPUs, or the CPU where there is none.

    Raises:
        Failure: torch does not have a device.
    """
    if not requested:
        return session.state.machine.usual_devices
    environment = session.state.machine.environment
    known = [device.id for device in environment.devices] if environment else []
    devices = ["cuda:0" if device == "cuda" else device for device in requested]
    if ALL in devices:
        gpus = tuple(name for name in known if name != CPU)
        return gpus or (CPU,)
    for device in devices:
        if device not in known:
            why = environment.unavailable.get("devices", "") if environment else ""
            raise Failure(explain_missing_device(device, known, why))
    return tuple(devices)


def explain_missing_device(device: str, known: Sequence[str], why: str) -> str:
    """Explain a missing device: ``no device cuda:0: this torch is built without CUDA (only cpu)``.

    Args:
        device: as requested.
        known: the devices that torch has.
        why: why torch lacks some; empty if it has all.
    """
    if not why:
        return f"no device {device}: torch has {', '.join(known)}"
    reason = why.removeprefix("no CUDA devices: ")
    return f"no device {device}: {reason} (only {', '.join(known)})"


def describe_current_run(state: RunsState) -> str:
    """Return the running workload, its progress, and its first findings."""
    states = state.book.values()
    now = next((entry for entry in states if entry.progress and not entry.ended), None)
    if now is None or now.progress is None:
        return f"waiting for the runner ({state.runner.status})"
    progress = now.progress
    parts = [f"{now.request.workload} on {now.request.device}", format_phase(progress.phase)]
    if progress.blocks:
        parts.append(fmt.count(progress.blocks, "block"))
    if progress.estimate_s is not None:
        parts.append(fmt.seconds(progress.estimate_s))
    if progress.half_width is not None:
        parts.append(fmt.spread(progress.half_width))
    return "  ".join(parts)
