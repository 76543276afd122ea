"""The devices of this process's tests: simulated GPUs, real ones, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.simulated_gpu import libraries as simulated
from tui.rehearsal.device.installation import CannotSimulateError
from tui.rehearsal.device.settings import DeviceSettings, state_folder


@cache
def _libraries() -> Path | str | None:
    try:
        return simulated.libraries()
    except CannotSimulateError as error:
        return f"the simulated GPU cannot be built: {error}"


def is_simulated() -> bool:
    """Return whether torch would find the simulator's libraries here."""
    return isinstance(_libraries(), Path)


def prepare(config: pytest.Config) -> None:
    """Give this process and its children simulated GPUs of their own, where available."""
    found = _libraries()
    if not isinstance(found, Path):
        return
    folder = Path(tempfile.mkdtemp(prefix="simulated-gpu-", dir=state_folder()))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ.update(simulated.environment(found, DeviceSettings(), folder / "state"))


@cache
def why_no_gpu() -> str:
    """Return why torch has no CUDA device here, real or simulated; empty where it has one."""
    found = _libraries()
    if isinstance(found, str):
        return found
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build without CUDA"
    return "" if torch.cuda.is_available() else "torch sees no CUDA device"


@cache
def why_no_real_gpu() -> str:
    """Return why numbers and times are meaningless here; empty with a real GPU."""
    simulated = "it asks for right numbers or times, and the GPU here is simulated"
    return simulated if is_simulated() else why_no_gpu()
