"""Our modules as one zip file, which a Python elsewhere imports from memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import tui
import workloads
from workloads.declare.user_workloads import SENT

FALLBACK = "fallback"
"""Folder in the archive that is searched last: for what the host may have itself."""
_SENT = (
    "core/__init__.py",
    "core/child/__init__.py",
    "core/child/inside.py",
    "core/child/launch.py",
    "core/text/__init__.py",
    "core/text/secrets.py",
    "allocators/__init__.py",
    "allocators/__main__.py",
    "allocators/agents.py",
    "allocators/discover.py",
    "allocators/layouts.py",
    "allocators/messages.py",
    "allocators/peek.py",
    "allocators/process_files.py",
    "allocators/watch.py",
    "monitor",
)
"""The modules of ``tui`` that the monitor and the watch import."""
_SENT_WORKLOADS = (
    "__init__.py",
    "agent/__init__.py",
    "agent/address.py",
    "protocol/__init__.py",
    "protocol/change_writer.py",
    "protocol/keep_alive.py",
    "protocol/machine_identity.py",
    "protocol/process.py",
    "protocol/torch_memory.py",
    "protocol/wire.py",
)
_ENTRY = "gpu_workbench_entry.py"
_LEVEL = 9
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time in a zip file: equal modules make equal archives."""


@cache
def build_archive() -> bytes:
    """Return the zip file: our modules, NVML's bindings, and psutil's stand-in."""
    return _zip(_members())


def _zip(members: Iterable[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def build_runner_archive(files: Sequence[str] = ()) -> bytes:
    """Return the zip file of the runner: ``workloads``, which Python can also run as a file.

    Args:
        files: the workload files of the user. One that cannot be read is left out, and the runner
            reports that it does not exist.
    """
    buffer = io.BytesIO(_zip_workloads())
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for number, file in enumerate(files):
            with suppress(OSError):
                content = Path(file).read_bytes()
                archive.writestr(f"workloads/declare/{SENT}/{number}.py", content)
    return buffer.getvalue()


@cache
def _zip_workloads() -> bytes:
    entry = Path(workloads.ENTRY).read_bytes()
    root = Path(workloads.__path__[0])
    modules = [
        (f"workloads/{file.relative_to(root)}", file.read_bytes())
        for file in sorted(root.rglob("*.py"))
    ]
    return _zip([*modules, (_ENTRY, entry), ("__main__.py", entry)])


def _members() -> Iterator[tuple[str, bytes]]:
    root = Path(tui.__path__[0])
    yield "tui/__init__.py", (root / "__init__.py").read_bytes()
    yield from _modules(root, "tui", _SENT)
    yield from _modules(Path(workloads.__path__[0]), "workloads", _SENT_WORKLOADS)
    yield _ENTRY, Path(workloads.ENTRY).read_bytes()
    bindings = find_spec("pynvml")
    if bindings is not None and bindings.origin is not None:
        yield "pynvml.py", Path(bindings.origin).read_bytes()
    stand_in = files("tui.hosts").joinpath("procfs.py").read_bytes()
    yield f"{FALLBACK}/psutil.py", stand_in


def _modules(root: Path, package: str, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        path = root / name
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            yield f"{package}/{file.relative_to(root)}", file.read_bytes()
