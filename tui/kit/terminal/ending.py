"""End the program on a signal, or when its terminal is gone or no longer accepts output.

Textual handles none of the signals that end a program, so the terminal would stay in its alternate
screen. Where SIGHUP is ignored and the terminal vanishes, Textual's input thread would spin for
ever. A terminal that does not read (a stalled connection, a stopped multiplexer) blocks every write
to it, and so the event loop, which then handles no signal and cannot end in order. A timer's thread
ends the process in that case: it drops the unread output, which leaves room for the few bytes that
restore the terminal. No Textual here.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

WAKE = signal.SIGURG
"""Interrupts a blocked write; without urgent data on a socket it has no other meaning."""
_NOT_FATAL = (
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGWINCH",
    # Python ignores these two.
    "SIGPIPE",
    "SIGXFSZ",
)
"""Signals that do not end a program (signal(7))."""
_NOT_HANDLED = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
"""Signals that Python cannot handle: the kernel kills, or repeats the instruction that failed."""


def _ending() -> Iterator[signal.Signals | int]:
    others = {getattr(signal, name, None) for name in (*_NOT_FATAL, *_NOT_HANDLED)}
    return (number for number in sorted(signal.valid_signals()) if number not in others)


SIGNALS = tuple(number for number in _ending() if isinstance(number, signal.Signals))
"""Signals that would end the program at once, without restoring the terminal.

Batch systems send some of them (SIGUSR1, SIGUSR2), the kernel others when the processor time is
used up (SIGXCPU), and timers others (SIGALRM).
"""
REAL_TIME = tuple(number for number in _ending() if not isinstance(number, signal.Signals))
"""Real-time signals that would end the program; they have no names of their own."""


def handle_signals(
    numbers: Iterable[signal.Signals], call: Callable[[signal.Signals], object]
) -> None:
    """Call a function in the running event loop at each of these signals.

    A signal that was ignored when this program started stays ignored, as nohup requires, and a
    shell for its background jobs.
    """
    loop = asyncio.get_running_loop()
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, call, number)


CHECK_S = 1.0
"""Seconds between two checks of the terminal."""
FORCED_EXIT_S = 1.4
"""Seconds after which the program is ended by force if it has not ended in order."""
RESTORE = (
    b"\x18"  # CAN: ends an escape sequence that was cut off
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h"
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l\x1b[<u"
    b"\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Ends synchronized output, bracketed paste, mouse, focus reports, kitty keys and the alternate
screen; turns line wrapping and the cursor on (xterm's control sequences)."""
STALLED_CHECK_S = 0.3
"""Seconds between two checks for a stalled terminal, once the end is overdue."""
WRITE_S = 0.5
"""Seconds in which to write the last bytes to the terminal."""


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
        """Start watching, or take the signals back; the event loop must run in the main thread."""
        self._loop = asyncio.get_running_loop()
        # From the first of its own handlers on, every signal wakes the loop through a descriptor.
        # One is enough: asyncio takes 0.1 ms for each of some fifty.
        self._loop.add_signal_handler(signal.SIGTERM, self._finish, 128 + signal.SIGTERM)
        for number in (*SIGNALS, *REAL_TIME):
            # This handler also runs during a blocked write.
            signal.signal(number, self._signalled)
        if self._terminal is not None and self._timer is None:
            self._check_terminal()

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._forced_exit is not None:
            self._forced_exit.arm(128 + number, FORCED_EXIT_S)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._finish, 128 + number)

    def remove(self) -> None:
        """Stop watching."""
        if self._loop is None:
            return
        self._loop.remove_signal_handler(signal.SIGTERM)
        for number in (*SIGNALS, *REAL_TIME):
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def _check_terminal(self) -> None:
        if self._loop is None or self._terminal is None:
            return
        if hung_up(self._terminal):
            # Nothing more can be written, and a writer that is stuck would keep the program.
            timer = threading.Timer(FORCED_EXIT_S, os._exit, (128 + signal.SIGHUP,))
            timer.daemon = True
            timer.start()
            self._finish(128 + signal.SIGHUP)
            return
        self._timer = self._loop.call_later(CHECK_S, self._check_terminal)

    def _finish(self, code: int) -> None:
        if not self._ended:
            self._ended = True
            self._end(code)


def hung_up(terminal: int) -> bool:
    """Return whether the other side of the terminal is gone."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(terminal, 0)  # poll always reports hang-up and error
    return any(
        events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0)
    )


def stalled(terminal: int) -> bool:
    """Return whether the terminal has no room for a byte: its other side is stuck or gone."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(terminal, select.POLLOUT)
    # Linux reports room in a terminal that is gone, too.
    gone = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return not any(events & select.POLLOUT and not events & gone for _, events in poll.poll(0))


class ForcedExit:
    """Ends the process if a stalled terminal prevents an orderly end.

    Create it before the terminal is changed: it stores the terminal's modes.

    Args:
        terminal: descriptor of the terminal that the screen is drawn on.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._modes: list[Any] | None = None
        self._armed = False
        if os.isatty(terminal):
            self._modes = termios.tcgetattr(terminal)

    def arm(self, code: int, timeout_s: float) -> None:
        """Prepare to force the end of the process; called in the main thread.

        An orderly end may take any time as long as the terminal accepts output.

        Args:
            code: exit code.
            timeout_s: seconds for an orderly end.
        """
        if not self._armed:
            self._armed = True
            # The main thread would end the process before the terminal is restored.
            signal.signal(WAKE, lambda _number, _frame: time.sleep(2 * WRITE_S))
            self._start(timeout_s, code)

    def _start(self, seconds: float, code: int) -> None:
        timer = threading.Timer(seconds, self._check_terminal, (code,))
        timer.daemon = True
        timer.start()

    def _check_terminal(self, code: int) -> None:
        if not stalled(self._terminal):
            self._start(STALLED_CHECK_S, code)
            return
        self.restore()
        os._exit(code)

    def restore(self) -> None:
        """Drop the unread output and restore the terminal; do nothing unless armed.

        Later output of this process to the terminal is dropped too.
        """
        if self._modes is None or not self._armed:
            return
        try:
            # A new open file description: it must not block, and other processes share the old one.
            name = os.ttyname(self._terminal)
            terminal = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return  # the terminal is gone
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._terminal)
            os.close(nowhere)
            _wake_writers()
            _restore(terminal)
            termios.tcsetattr(terminal, termios.TCSANOW, self._modes)
        except (OSError, termios.error):
            return  # the terminal has gone in between
        finally:
            os.close(terminal)


def _wake_writers() -> None:
    """Interrupt the threads that are blocked in a write to the terminal.

    A signal that has a handler ends the system call; the rest of the output goes to /dev/null.
    """
    for thread in threading.enumerate():
        if thread.ident is not None and thread is not threading.current_thread():
            signal.pthread_kill(thread.ident, WAKE)


def _restore(terminal: int) -> None:
    """Write :data:`RESTORE` in place of the unread output, for :data:`WRITE_S` seconds at most."""
    data = RESTORE
    deadline = time.monotonic() + WRITE_S
    while data and time.monotonic() < deadline:
        termios.tcflush(terminal, termios.TCOFLUSH)
        try:
            data = data[os.write(terminal, data) :]
        except BlockingIOError:
            time.sleep(0.005)


def create_forced_exit() -> ForcedExit | None:
    """Create the forced exit for the screen's stream; ``None`` if that is no terminal."""
    stream = sys.__stderr__
    return ForcedExit(stream.fileno()) if stream is not None and stream.isatty() else None
