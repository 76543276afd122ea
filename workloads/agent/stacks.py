"""The Python stacks of all threads of this process, read without a call to CUDA.

A dictionary of all threads' frames contains the frame of the function that made it, which has the
dictionary as a variable. This cycle would keep the variables of every thread's functions, and their
tensors, until the next garbage collection. So each function here empties it before returning.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

MOST_THREADS = 32
MOST_FRAMES = 64
LONGEST_NAME = 400
"""Characters of a file's name or a function's; a longer name keeps its end."""
MOST_BYTES = 48 << 10
"""Bytes of an answer as JSON: it has to fit the socket's buffer."""


def code_line(filename: str, line: int | None, name: str) -> dict[str, Any]:
    """Return a line of Python as plain data."""
    return dict(filename=filename[-LONGEST_NAME:], line=line or 0, name=name[-LONGEST_NAME:])


def thread_stacks(asking: int, hidden: str) -> list[dict[str, Any]]:
    """Return the Python stacks of all threads, the requesting one first.

    Args:
        asking: ``threading.get_ident()`` of the thread whose request was refused; 0 for none.
        hidden: the agent's folder, whose frames are omitted.
    """
    names = dict(map(_ident_and_name, threading.enumerate()))
    main = threading.main_thread().ident
    stacks = []
    current = sys._current_frames()
    try:
        for ident in sorted(current, key=lambda number: (number != asking, number != main, number)):
            frames = _lines_of(current[ident], hidden)
            stack = dict(name=names.get(ident, ""), asked=ident == asking, main=ident == main)
            stacks.append(dict(stack, frames=frames))
    finally:
        current.clear()
    return stacks[:MOST_THREADS]


def _ident_and_name(thread: threading.Thread) -> tuple[int | None, str]:
    """Read both with the base class's properties, which a program's subclass may override."""
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
        package: the package whose own frames are omitted; their contents are the program's.
    """
    stacks = []
    current = sys._current_frames()
    try:
        for ident in sorted(current, key=lambda number: number != asking):
            frames: list[Any] = []
            frame: Any = current[ident]
            while frame is not None:
                if not _is_of(package, dict.get(frame.f_globals, "__name__")):
                    frames.append(frame)
                frame = frame.f_back
            stacks.append(frames)
    finally:
        current.clear()
    return stacks


def _is_of(package: str, name: Any) -> bool:
    return type(name) is str and (name == package or name.startswith(package + "."))


def stacks_now(hidden: str) -> dict[str, Any]:
    """Return the stacks of the program's threads as an answer that fits a socket.

    Args:
        hidden: the folder whose frames are omitted, as are threads without others.

    Returns:
        ``threads``, the main one first, and ``left_out``, the threads beyond the answer's limit.
    """
    threads = [stack for stack in thread_stacks(0, hidden) if stack["frames"]]
    fitting: list[dict[str, Any]] = []
    size = 0
    for thread in threads:
        size += len(json.dumps(thread))
        if size > MOST_BYTES and fitting:
            break
        fitting.append(thread)
    return dict(threads=fitting, left_out=len(threads) - len(fitting))
