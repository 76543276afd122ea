"""The simulated GPU of this environment, for torch in the tests' own process and its children.

It needs an environment in which torch's CUDA build is installed without the ``nvidia-*`` packages
that it requires; the simulator's libraries take their place. With the packages, nothing is
simulated here. ``.ci/run`` makes such an environment.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from tui.rehearsal.device.installation import TorchInstallation, read_torch
from tui.rehearsal.device.prepare import build_once
from tui.rehearsal.device.settings import DeviceSettings


def libraries() -> Path | None:
    """Return the folder of the simulator's libraries; ``None`` with CUDA's own or no CUDA build.

    Builds them first if they are missing or older than their sources.

    Raises:
        CannotSimulateError: the text names the missing part and how to get it.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    if not (folder / "lib" / "libtorch_cuda.so").exists():
        return None
    nvidia = folder.parent / "nvidia"
    for runtime in nvidia.glob("*/lib/libcudart.so.*"):
        if not runtime.parent.is_symlink() and not _is_old(runtime.parent):
            return None
    return _installed(read_torch(Path(sys.executable), folder), nvidia / "cu13" / "lib")


def _is_old(place: Path) -> bool:
    """Return whether the libraries were built in place, as in environments made earlier."""
    return (place / "simulated").exists()


def _installed(torch: TorchInstallation, place: Path) -> Path:
    """Return the libraries' folder after leading torch's own search path to it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "simulated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = build_once(torch, Path(sys.prefix) / "simulated-gpu")
        if _is_old(place):
            shutil.rmtree(place)
        if not place.is_symlink() or place.readlink() != built:
            place.unlink(missing_ok=True)
            place.symlink_to(built)
    return built


def environment(libraries: Path, settings: DeviceSettings, state: Path) -> dict[str, str]:
    """Return this process's environment with a child's settings for the simulated GPU."""
    others = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        **settings.variables(state),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(libraries), others])),
    }
