"""Ctrl-C while the program starts. An entry module imports this first, so it imports little itself.

Python answers SIGINT with an exception wherever it is: amid imports that is a traceback of some
module. Nothing is under way then that would have to be cleaned up.
"""

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C has ended: 128 and the number of SIGINT."""


def end_at_once() -> None:
    """Have Ctrl-C end the process without a word, from now on."""
    _install(_exit)


def raise_in_main() -> None:
    """Have Ctrl-C raise :class:`KeyboardInterrupt`, for who cleans up after it."""
    _install(signal.default_int_handler)


def ignore() -> None:
    """Have Ctrl-C do nothing: the work is done, and Python ends."""
    _install(signal.SIG_IGN)


def _install(handler: "signal._HANDLER") -> None:
    # Who starts it in the background, as a shell does, wants it ignored.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _exit(_number: int, _frame: "FrameType | None") -> None:
    os._exit(INTERRUPTED)
