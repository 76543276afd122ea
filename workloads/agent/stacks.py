"""The Python stacks of all threads of this process, read without a call to CUDA.

A dictionary of all threads' frames has the frame of the function that made it, whose variable it
is: a cycle, which would keep the variables of every thread's functions, and their tensors, until
the garbage collector comes by. So each function here empties it before it returns.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

MOST_THREADS = 32
MOST_FRAMES = 64
LONGEST_NAME = 400
"""Characters of a file's name or a function's; of a longer one the end."""
MOST_BYTES = 48 << 10
"""Of an answer as JSON: it goes through a socket that is not waited for."""


def code_line(filename: str, line: int | None, name: str) -> dict[str, Any]:
    """Return a line of Python as plain data."""
    return dict(filename=filename[-LONGEST_NAME:], line=line or 0, name=name[-LONGEST_NAME:])


def thread_stacks(asking: int, hidden: str) -> list[dict[str, Any]]:
    """Return the Python stacks of all threads, the one that asked first.

    Args:
        asking: ``threading.get_ident()`` of the thread whose request was refused; 0 for none.
        hidden: the folder whose frames are left out: the agent's.
    """
    names = dict(map(_ident_and_name, threading.enumerate()))
    main = threading.main_thread().ident
    found = []
    current = sys._current_frames()
    try:
        for ident in sorted(current, key=lambda each: (each != asking, each != main, each)):
            frames = _lines_of(current[ident], hidden)
            stack = dict(name=names.get(ident, ""), asked=ident == asking, main=ident == main)
            found.append(dict(stack, frames=frames))
    finally:
        current.clear()
    return found[:MOST_THREADS]


def _ident_and_name(thread: threading.Thread) -> tuple[int | None, str]:
    """Read both by the base class's own properties, which a program's subclass may override."""
    try:
        name = _NAME(thread)
        return _IDENT(thread), name if type(name) is str else ""
    except Exception:
        return None, ""  # a subclass that was not initialized


_IDENT = threading.Thread.__dict__["ident"].__get__
_NAME = threading.Thread.__dict__["name"].__get__


def _lines_of(innermost: Any, hidden: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    frame = innermost
    while frame is not None and len(lines) < MOST_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(hidden):
            lines.append(code_line(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return lines


def frames_of_threads(asking: int, package: str) -> list[list[Any]]:
    """Return the frames of each thread, innermost first, the asking thread's first.

    Args:
        asking: ``threading.get_ident()`` of that thread.
        package: whose own frames are left out; what they have is the program's.
    """
    found = []
    current = sys._current_frames()
    try:
        for ident in sorted(current, key=lambda each: each != asking):
            frames: list[Any] = []
            frame: Any = current[ident]
            while frame is not None:
                if not _is_of(package, dict.get(frame.f_globals, "__name__")):
                    frames.append(frame)
                frame = frame.f_back
            found.append(frames)
    finally:
        current.clear()
    return found


def _is_of(package: str, name: Any) -> bool:
    return type(name) is str and (name == package or name.startswith(package + "."))


def stacks_now(hidden: str) -> dict[str, Any]:
    """Return the stacks of the program's threads as an answer that fits a socket.

    Args:
        hidden: the folder whose frames are left out, and threads that have no others.

    Returns:
        ``threads``, the main one first, and ``left_out``: threads beyond the answer's limit.
    """
    threads = [each for each in thread_stacks(0, hidden) if each["frames"]]
    kept: list[dict[str, Any]] = []
    size = 0
    for each in threads:
        size += len(json.dumps(each))
        if size > MOST_BYTES and kept:
            break
        kept.append(each)
    return dict(threads=kept, left_out=len(threads) - len(kept))
