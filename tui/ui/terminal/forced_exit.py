"""The end of a program whose terminal takes nothing any more: restore what can be, and leave.

A terminal that does not read (a stalled connection, a stopped multiplexer) blocks whoever writes to
it, and with it the event loop: an orderly end waits for it too. What is still to be written can be
thrown away, and then there is room for the few bytes that give the terminal back. No Textual here.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from typing import Any

if sys.platform != "win32":
    import termios

    WAKE = signal.SIGURG
    """Means nothing to a program without urgent data on its sockets."""

RESTORE = (
    b"\x18"  # CAN: what was cut off in the middle of an escape sequence is over
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h"
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l\x1b[<u"
    b"\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Ends synchronized output, bracketed paste, mouse, focus reports, kitty keys and the alternate
screen; turns line wrapping and the cursor on (xterm's control sequences)."""
LOOK_S = 0.3
WRITE_S = 0.5
"""How long the terminal is tried for its last bytes."""


def stalled(terminal: int) -> bool:
    """The terminal has no room for a byte: its other side does not read, or is gone."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(terminal, select.POLLOUT)
    # Linux tells of room in a terminal that is gone too.
    gone = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return not any(what & select.POLLOUT and not what & gone for _, what in poll.poll(0))


class ForcedExit:
    """Ends the process where an orderly end does not come because the terminal is stalled.

    Made while the terminal is as it was found.

    Args:
        terminal: descriptor of the terminal that is drawn on.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._modes: list[Any] | None = None
        self._armed = False
        if sys.platform != "win32" and os.isatty(terminal):
            self._modes = termios.tcgetattr(terminal)

    def arm(self, code: int, patience: float) -> None:
        """From now on the process may have to be ended; called in the main thread.

        An end that is under way while the terminal takes what is written is left alone, however
        long it takes.

        Args:
            code: exit code.
            patience: seconds for an orderly end.
        """
        if not self._armed:
            self._armed = True
            # The main thread would end the process before the terminal is restored.
            signal.signal(WAKE, lambda _number, _frame: time.sleep(2 * WRITE_S))
            self._start(patience, code)

    def _start(self, seconds: float, code: int) -> None:
        timer = threading.Timer(seconds, self._look, (code,))
        timer.daemon = True
        timer.start()

    def _look(self, code: int) -> None:
        if not stalled(self._terminal):
            self._start(LOOK_S, code)
            return
        self.restore()
        os._exit(code)

    def restore(self) -> None:
        """Throw away what waits to be read, give the terminal back; once armed, waits a moment.

        From then on what this process writes to the terminal is thrown away too.
        """
        if sys.platform == "win32" or self._modes is None or not self._armed:
            return
        try:
            # A description of its own: this one must not wait, and others share the old one.
            name = os.ttyname(self._terminal)
            terminal = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return  # the terminal is gone, nobody is left to see it
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._terminal)
            os.close(nowhere)
            _wake_writers()
            _write_over(terminal, RESTORE)
            termios.tcsetattr(terminal, termios.TCSANOW, self._modes)
        except (OSError, termios.error):
            return  # it has gone in between
        finally:
            os.close(terminal)


def _wake_writers() -> None:
    """Have a thread that is stuck in a write give up the terminal, which it keeps to itself.

    A signal that has a handler ends the system call; what is left of it goes nowhere.
    """
    for thread in threading.enumerate():
        if thread.ident is not None and thread is not threading.current_thread():
            signal.pthread_kill(thread.ident, WAKE)


def _write_over(terminal: int, data: bytes) -> None:
    """Write in place of all that waits to be read, as far as that comes about in a moment."""
    deadline = time.monotonic() + WRITE_S
    while data and time.monotonic() < deadline:
        termios.tcflush(terminal, termios.TCOFLUSH)
        try:
            data = data[os.write(terminal, data) :]
        except BlockingIOError:
            time.sleep(0.005)


def of_screen() -> ForcedExit | None:
    """For the stream that the screen is drawn on; ``None`` where that is no terminal."""
    stream = sys.__stderr__
    return ForcedExit(stream.fileno()) if stream is not None and stream.isatty() else None
