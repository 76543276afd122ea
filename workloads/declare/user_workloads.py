"""Users' workloads: files that declare them with the catalogue's decorator.

A file runs once, and only in the runner. A faulty file is reported in one line, and affects neither
the other files nor the catalogue.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import pkgutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from workloads.declare import workload
from workloads.protocol import wire
from workloads.protocol.results import WorkloadInfo

OPTION = "--workloads"
SENT = "sent"
"""Folder of this package in an archive that holds the files, which do not exist on that host; they
are named by their number."""
READ_S = 120.0
"""Time limit for reading a file; importing a large library takes a while."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that declares workloads."""

    path: str
    number: int
    """Its position among the files of the runner; an archive names it by this."""


_sources: dict[str, SourceFile] = {}
"""The files by the names of the workloads that they declare."""


def files_in(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files that ``--workloads FILE`` names, and the remaining arguments."""
    files: list[str] = []
    left: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == OPTION:
            files += [item for item in [next(rest, None)] if item is not None]
        else:
            left.append(argument)
    return files, left


def options(files: Sequence[str]) -> list[str]:
    """Return the arguments from which :func:`files_in` reads these files."""
    return [argument for file in files for argument in (OPTION, file)]


def load(files: Sequence[str]) -> tuple[str, ...]:
    """Declare the workloads of the files, and return a line for each problem.

    Args:
        files: paths of the files; declarations made before a file's error remain.
    """
    problems: list[str] = []
    for number, file in enumerate(files):
        path = Path(file).expanduser().absolute()
        before = set(workload.registered())
        problem = _execute(path, f"user_workloads_{number}", _read_sent(number))
        if problem is not None:
            problems.append(problem)
        declared = [item for name, item in workload.registered().items() if name not in before]
        _sources.update((item.info.name, SourceFile(str(path), number)) for item in declared)
        problems += [
            text for item in declared if (text := _unregister_unreadable(path, item)) is not None
        ]
        if problem is None and not declared:
            problems.append(
                f"{path}:1: it declares no workload; decorate a function with @workload"
            )
    return tuple(problems)


def find_source(name: str) -> SourceFile | None:
    """Return the file that declares a workload; ``None`` for one in the catalogue."""
    return _sources.get(name)


def load_source(source: SourceFile) -> None:
    """Declare the workloads of a file that another process has loaded.

    Raises:
        ImportError: the file cannot be read here.
    """
    problem = _execute(
        Path(source.path), f"user_workloads_{source.number}", _read_sent(source.number)
    )
    if problem is not None:
        raise ImportError(problem)


def _read_sent(number: int) -> bytes | None:
    """Return the content of a file that came in the archive of our modules."""
    try:
        return pkgutil.get_data(__package__, f"{SENT}/{number}.py")
    except OSError:
        return None


class _SentFile(importlib.abc.SourceLoader):
    """Loads a file from its content, under the path that it has on the machine it came from."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002 (the interface has it)
        return str(self._path)

    def get_data(self, path: str) -> bytes:  # noqa: ARG002 (the interface has it)
        return self._content


def _execute(path: Path, name: str, content: bytes | None) -> str | None:
    """Run a file as a module, and return its error with the line, if any."""
    loader = None if content is None else _SentFile(path, content)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        return f"{path}: not a Python file; its name must end in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # The file can import its neighbors, but they do not shadow installed modules.
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        with _time_limit(), contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (a user's file may raise anything)
        why = _describe_error(error)
        if isinstance(error, ModuleNotFoundError) and content is not None:
            why += "; a host gets this file and no other"
        return f"{path}:{_line_of(error, path)}: {why}"
    return _cuda_in_use(path)


def _describe_error(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _line_of(error: BaseException, path: Path) -> int:
    """Return the file's last line in the error's traceback; 1 where the file does not appear."""
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return (lines[-1] if lines else None) or 1


def _cuda_in_use(path: Path) -> str | None:
    """Return the problem if CUDA is in use here, which would keep forked processes off the GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return f"{path}:1: it uses CUDA while it is read, so no workload can; do that in a function"
    return None


def _unregister_unreadable(path: Path, item: workload.Workload) -> str | None:
    """Remove a workload that cannot be described, and return the reason."""
    line = item.prepare.__code__.co_firstlineno
    try:
        info = workload.with_code(item)
        wire.from_plain(WorkloadInfo, wire.to_plain(info))
        wire.encode(info)
    except (ValueError, TypeError, OSError, SyntaxError) as error:
        workload.forget(item.info.name)
        return f"{path}:{line}: workload {item.info.name}: {_describe_error(error)}"
    return None


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Raise an error after :data:`READ_S`, where alarms are available."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"it was not read within {READ_S:g} s")

    before: Callable[[int, FrameType | None], object] | int | None
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, READ_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
