"""Ctrl-C while the program starts. An entry module imports this first, so it imports little itself.

On SIGINT, Python raises an exception at the current line; during imports, that prints a traceback
from some module. Nothing needs cleanup at that time.
"""

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended: 128 plus the number of SIGINT."""


def end_at_once() -> None:
    """Make Ctrl-C end the process silently from now on."""
    _install(_exit)


def raise_in_main() -> None:
    """Make Ctrl-C raise :class:`KeyboardInterrupt`, for callers that clean up after it."""
    _install(signal.default_int_handler)


def ignore() -> None:
    """Make Ctrl-C do nothing: the work is done, and Python is ending."""
    _install(signal.SIG_IGN)


def _install(handler: "signal._HANDLER") -> None:
    # A program that starts it in the background, such as a shell, wants SIGINT ignored.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _exit(_number: int, _frame: "FrameType | None") -> None:
    os._exit(INTERRUPTED)
