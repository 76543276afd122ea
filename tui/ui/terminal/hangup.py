"""Ends the program when it is told to, or when its terminal is gone.

The framework installs no handler for the signals that end a program, so the terminal would be left
in its alternate screen; and where SIGHUP is ignored and the terminal vanishes, its input thread
would spin for ever. Where the terminal is there but takes nothing, the event loop stands still in a
write and hears no signal: then the process is ended from beside it. No Textual here.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from tui.ui.terminal.forced_exit import ForcedExit

SIGNALS = (
    (
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        # By these a batch system says that the time of a job is nearly over; by the last the kernel
        # says that its processor time is.
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGXCPU,
    )
    if sys.platform != "win32"
    else ()
)
"""Those that would end the program at once, but for those that tell of its own crash."""
LOOK_S = 1.0
"""How often the terminal is looked at."""
FORCED_EXIT_S = 1.4
"""After this an end that could not be had in an orderly way is forced."""


class HangupWatch:
    """Watches for signals and for the terminal's hang-up.

    Args:
        end: called once with the exit code.
        terminal: file descriptor of the terminal; ``None`` to watch for signals only.
        forced_exit: ends the process where a signal is not followed by an orderly end.
    """

    def __init__(
        self,
        end: Callable[[int], None],
        terminal: int | None,
        forced_exit: ForcedExit | None = None,
    ) -> None:
        self._end = end
        self._terminal = terminal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._forced_exit = forced_exit

    def install(self) -> None:
        """Start watching; the event loop must run in the main thread."""
        self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._finish, 128 + number)
            if self._forced_exit is not None:
                # The loop is told through its own descriptor; this handler runs in a blocked write
                # too.
                signal.signal(number, self._signalled)
        if self._terminal is not None:
            self._look()

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._forced_exit is not None:
            self._forced_exit.arm(128 + number, FORCED_EXIT_S)

    def remove(self) -> None:
        """Stop watching."""
        if self._loop is None:
            return
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def _look(self) -> None:
        if self._loop is None or self._terminal is None:
            return
        if hung_up(self._terminal):
            # Nothing more can be written, and a writer that is stuck would keep the program.
            timer = threading.Timer(FORCED_EXIT_S, os._exit, (128 + signal.SIGHUP,))
            timer.daemon = True
            timer.start()
            self._finish(128 + signal.SIGHUP)
            return
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _finish(self, code: int) -> None:
        if not self._ended:
            self._ended = True
            self._end(code)


def hung_up(terminal: int) -> bool:
    """The other side of the terminal is gone."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(terminal, 0)  # hang-up and error are always told
    return any(
        what & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, what in poll.poll(0)
    )
