"""The run that is looked at: started or opened, sampled, asked, ended. No Textual."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from tui.monitor.messages import Sample
from tui.state.watched_run import WatchedRun
from tui.watch.runs import Run


class RunError(Exception):
    """A run that cannot be started or opened; the text is one line: what, why, what to do."""


class WatchedRunSession:
    """The state behind the run's page: one run at a time, in the event loop's thread.

    Leaving a run never hurts it: it belongs to itself.
    """

    def listen(self, changed: Callable[[], None]) -> None:
        """Have a function called when something is to be drawn anew, in the event loop."""
        raise NotImplementedError

    @property
    def state(self) -> WatchedRun | None:
        """What is known now; ``None`` where no run is open. The same object until it changes."""
        raise NotImplementedError

    # ---- which run ----

    def kept(self) -> list[Run]:
        """The runs that are kept, the newest first."""
        raise NotImplementedError

    def launch(self, command: Sequence[str], entries: int | None = None) -> Run:
        """Start a command as a run of its own and open it; whatever was open is left.

        Args:
            command: program and arguments.
            entries: of torch's memory history, from the first CUDA call on; ``None`` for none.

        Raises:
            RunError: it cannot be started.
        """
        raise NotImplementedError

    def open(self, run: Run) -> None:
        """Follow a run that goes on, replay one that has ended; whatever was open is left.

        Raises:
            RunError: its folder is gone, or is not to be read.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Leave the run as it is; :attr:`state` is ``None`` from here on."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Leave it for good: end this program's own children, not the run."""
        raise NotImplementedError

    # ---- what it is told of the outside ----

    def take_devices(self, sample: Sample) -> None:
        """NVML's newest, which tells where each process is and what it holds there."""
        raise NotImplementedError

    def looked_at(self, seen: bool) -> None:
        """Whether the page is on the screen: samples come ten times a second then, else twice."""
        raise NotImplementedError

    # ---- what is asked ----

    def snapshot(self, pid: int) -> str:
        """Ask a process for a snapshot, which it takes at its next step.

        Returns:
            One line: what was asked for, or why it was not and what would help. The snapshot comes
            as a mark of its devices, and first in ``state.snapshots``.
        """
        raise NotImplementedError

    def record(self, pid: int, on: bool) -> str:
        """Ask a process to record torch's memory history from its next step on, or no more.

        Returns:
            One line, as of :meth:`snapshot`. ``agent.recording`` tells when it is so.
        """
        raise NotImplementedError

    def end(self, number: signal.Signals) -> str:
        """Send SIGINT, SIGTERM or SIGKILL to the run's process group, if it is still this run's.

        Returns:
            One line: what was sent and where to, or why nothing was.
        """
        raise NotImplementedError

    def freeze(self, wanted: bool) -> None:
        """Hold the figures still, or have them follow the run again; nothing is lost meanwhile."""
        raise NotImplementedError
