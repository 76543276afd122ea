"""A simulated GPU for a user's Python, built once into the user's cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from tui.rehearsal.device import build
from tui.rehearsal.device.compiler import find_compiler
from tui.rehearsal.device.installation import CannotSimulateError, TorchInstallation, find_torch
from tui.rehearsal.device.settings import DeviceSettings

UNFINISHED = "building-"
# The dynamic loader splits LD_PRELOAD and LD_LIBRARY_PATH at these, and expands what follows $.
NOT_IN_PATHS = re.compile(r"[\s:;$]")
LOAD_TIMEOUT_S = 60.0
_LOADED = "import ctypes; ctypes.CDLL(None).sim_shared"
ABANDONED_AFTER_S = 24 * 3600.0
"""A build takes seconds; an unfinished folder of this age belongs to a process that was killed."""


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A simulated GPU that was built for one installation of torch."""

    torch: TorchInstallation
    libraries: Path
    """The folder of its libraries."""

    def variables(
        self, settings: DeviceSettings, state: Path, inherited: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the environment variables that give a child these devices instead of real ones.

        Args:
            settings: the configuration of the devices.
            state: the file through which processes share the devices; the first of them creates
                it. It belongs into :func:`tui.rehearsal.device.settings.state_folder`.
            inherited: the environment to which these variables are added.
        """
        return {
            **settings.variables(state),
            # torch's libraries name the folders of NVIDIA's, which precede LD_LIBRARY_PATH; what
            # is loaded already precedes them.
            "LD_PRELOAD": _join_paths(self.libraries / build.PRELOAD, inherited.get("LD_PRELOAD")),
            "LD_LIBRARY_PATH": _join_paths(self.libraries, inherited.get("LD_LIBRARY_PATH")),
        }


def _join_paths(first: Path, others: str | None) -> str:
    return os.pathsep.join([str(first), *([others] if others else [])])


def cache_folder() -> Path:
    """Return the folder of the builds: ``simulated-gpu`` in the user's cache."""
    return user_cache_path("gpu-workbench") / "simulated-gpu"


def prepare_device(python: str) -> SimulatedDevice:
    """Return the simulated GPU for a Python's torch, which is built unless the cache contains it.

    The first build takes seconds. Nothing is written outside the cache.

    Args:
        python: the interpreter that imports torch: a path, or a name on ``PATH``.

    Raises:
        CannotSimulateError: the Python has no suitable torch, there is no compiler, or the cache
            cannot be written; the text is one line.
    """
    torch = find_torch(python)
    device = SimulatedDevice(torch, build_once(torch, cache_folder()))
    _check_loading(device)
    return device


def _check_loading(device: SimulatedDevice) -> None:
    """Check that the interpreter loads the libraries.

    The dynamic loader ignores libraries that it cannot preload, and a child would use a real GPU.
    """
    unused = device.libraries / "state"  # the state is created when a device is used
    variables = device.variables(DeviceSettings(), unused, os.environ)
    try:
        done = subprocess.run(
            [device.torch.python, "-c", _LOADED],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOAD_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotSimulateError(f"{device.torch.python} does not run: {error}") from error
    if done.returncode:
        first = next(iter(done.stderr.splitlines()), "it ended without a word")
        raise CannotSimulateError(
            f"{device.torch.python} does not load the simulated GPU ({first.strip()}); remove "
            f"{device.libraries}, or set XDG_CACHE_HOME to a folder from which programs may run"
        )


def build_once(torch: TorchInstallation, cache: Path) -> Path:
    """Return the folder of the libraries for a torch, in a cache that keeps them.

    Several processes may do so at the same time: a build gets its name when it is complete.
    Without a compiler, a build by any other compiler serves.

    Raises:
        CannotSimulateError: as for :func:`prepare_device`.
    """
    if NOT_IN_PATHS.search(str(cache)):
        raise CannotSimulateError(
            f"no library can be loaded from {str(cache)!r}, whose name contains a space, colon, "
            "semicolon or dollar sign; set XDG_CACHE_HOME to another folder"
        )
    try:
        inputs = _digest(build.sources_hash(), *_describe_files(torch.folder))
        try:
            compiler = find_compiler()
        except CannotSimulateError:
            others = list(cache.glob(f"torch-{torch.version}-{inputs}-*"))
            if others:
                return others[0]
            raise
        libraries = cache / f"torch-{torch.version}-{inputs}-{_digest(compiler.name)}"
        if libraries.is_dir():
            return libraries
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(cache)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=cache) as temporary:
            unfinished, parts = Path(temporary) / "libraries", Path(temporary) / "parts"
            unfinished.mkdir()
            parts.mkdir()
            build.build(torch, compiler, unfinished, parts)
            _publish(unfinished, libraries)
    except OSError as error:
        raise CannotSimulateError(
            f"the simulated GPU cannot be built in {cache}: {error.strerror}; set XDG_CACHE_HOME "
            "to a folder with 200 MB of room"
        ) from error
    return libraries


def _describe_files(torch: Path) -> list[str]:
    """Return a text that distinguishes builds of one torch version, without reading gigabytes."""
    libraries = sorted((torch / "lib").glob("*.so*"))
    sizes = [f"{path.name} {path.stat().st_size}" for path in libraries]
    return [(torch / "version.py").read_text(encoding="utf-8"), *sizes]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _publish(unfinished: Path, libraries: Path) -> None:
    """Give a build its name, unless another process has given it to the same build."""
    try:
        unfinished.rename(libraries)
    except OSError:
        if not libraries.is_dir():
            raise


def _remove_abandoned(cache: Path) -> None:
    """Remove the unfinished builds of processes that were killed."""
    for folder in cache.glob(f"{UNFINISHED}*"):
        try:
            age = time.time() - folder.stat().st_mtime
        except OSError:
            continue  # another process has just completed it
        if age > ABANDONED_AFTER_S:
            shutil.rmtree(folder, ignore_errors=True)
