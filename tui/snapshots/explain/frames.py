"""Whose code a line of Python is, and the user's own frame of a stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from tui.snapshots.explain.inventory import CodeLine, ThreadStack

FrameKind = Literal["user", "framework", "interpreter", "native"]
"""``native`` is C++ or another library without a Python line; ``interpreter`` is the standard
library and frozen modules."""

_NATIVE = re.compile(
    r"\.(so[.\d]*|dylib|dll|pyd|exe|a|o|s|c|cc|cpp|cxx|cu|cuh|h|hh|hpp|inl)$", re.IGNORECASE
)
_FRAMEWORK = re.compile(
    r"/(site-packages|dist-packages)/"
    # torch run from its source tree
    r"|/torch/(_\w+|amp|ao|autograd|backends|compiler|cuda|distributed|distributions|export|fft|func"
    r"|futures|fx|jit|linalg|multiprocessing|nested|nn|onnx|optim|profiler|sparse|special|utils)/"
    r"|/torch/(_\w+|functional|hub|library|overrides|random|serialization|storage)\.py$"
    # what torch.compile and torch.fx write
    r"|/torchinductor_[^/]*/|^<eval_with_key>"
    # console scripts: torchrun, accelerate, …
    r"|/bin/[^/.]+$|/scripts/[^/]+\.exe/__main__\.py$"
)
_INTERPRETER = re.compile(
    r"/lib(64)?/(python|pypy)\d[^/]*/"
    r"|/(python\d[\d.]*|python|anaconda\d?|miniconda\d?|miniforge\d?|envs/[^/]+)/lib/"
    r"|/python\d+\.zip/"
    r"|^<(frozen|__array_function__)"
)
_MODULE_CALL = ("_call_impl", "_wrapped_call_impl", "_slow_forward")


def kind_of_code(filename: str, line: int, name: str) -> FrameKind:
    """Tell whose code a frame is, by its file's name; POSIX and Windows paths.

    Cells of a notebook, ``<stdin>`` and ``<string>`` are the user's.
    """
    path = filename.replace("\\", "/")
    if path in ("", "??") or _NATIVE.search(path) or ("::" in name and line == 0):
        return "native"
    lower = path.lower()
    if _FRAMEWORK.search(lower):
        return "framework"
    return "interpreter" if _INTERPRETER.search(lower) else "user"


def base_name(filename: str) -> str:
    """Return the last part of a POSIX or Windows path."""
    return filename.replace("\\", "/").rpartition("/")[2] or filename


def user_frame(stack: Iterable[CodeLine]) -> CodeLine | None:
    """Return the innermost frame of a stack that is outside packages and the interpreter.

    Args:
        stack: innermost first.

    Returns:
        The innermost Python frame where none is the user's; ``None`` where there is no Python.
    """
    python = None
    for frame in stack:
        kind = kind_of_code(frame.filename, frame.line, frame.name)
        if kind == "user":
            return frame
        if kind != "native" and python is None:
            python = frame
    return python


def place_words(frame: CodeLine) -> str:
    """``oom.py:15 in train``; a module's own lines have no function to name."""
    where = f"{base_name(frame.filename)}:{frame.line}"
    return where if frame.name in ("", "<module>") else f"{where} in {frame.name}"


def line_words(frame: CodeLine) -> str:
    """``oom.py:15``."""
    return f"{base_name(frame.filename)}:{frame.line}"


def main_stack(threads: Sequence[ThreadStack]) -> tuple[CodeLine, ...]:
    """Return the main thread's stack, empty if it is not known."""
    return next((thread.frames for thread in threads if thread.main), ())


def goes_through(stack: Iterable[CodeLine], path: str, *names: str) -> bool:
    """Return whether a stack has a frame in a file with ``path``, in one of the functions.

    Args:
        stack: any order.
        path: a part of the file's path, with ``/``.
        names: of functions; none for any.
    """
    return any(
        path in frame.filename.replace("\\", "/") and (not names or frame.name in names)
        for frame in stack
    )


def in_backward(stack: Iterable[CodeLine]) -> bool:
    """Return whether a stack waits in autograd's engine for a backward pass."""
    frames = tuple(stack)
    return goes_through(frames, "/torch/autograd/", "backward", "_engine_run_backward", "grad")


def in_module_call(stack: Sequence[CodeLine], function: str) -> bool:
    """Return whether a function on a stack is called by a module's forward pass.

    Args:
        stack: innermost first.
        function: the name of the innermost function to start from.
    """
    names = [frame.name for frame in stack]
    if function not in names:
        return False
    outer = stack[names.index(function) + 1 :]
    return goes_through(outer, "/torch/nn/modules/module.py", *_MODULE_CALL)
