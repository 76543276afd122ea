"""Where the tests of this process run: on simulated GPUs, on real ones, or on none."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.simulated_gpu import simulator
from tests.simulated_gpu.build import CannotBuildError


@cache
def _libraries() -> Path | str | None:
    try:
        return simulator.libraries()
    except CannotBuildError as error:
        return f"the simulated GPU cannot be built: {error}"


def is_simulated() -> bool:
    """Whether torch would find the simulator's libraries here."""
    return isinstance(_libraries(), Path)


def prepare(config: pytest.Config) -> None:
    """Give this process and its children simulated GPUs of their own, where there are any."""
    found = _libraries()
    if not isinstance(found, Path):
        return
    folder = Path(tempfile.mkdtemp(prefix="simulated-gpu-", dir=simulator.state_folder()))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ.update(simulator.environment(found, simulator.Settings(), folder / "state"))


@cache
def why_no_gpu() -> str:
    """Why torch has no CUDA device here, real or simulated; empty where it has one."""
    found = _libraries()
    if isinstance(found, str):
        return found
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build without CUDA"
    return "" if torch.cuda.is_available() else "torch sees no CUDA device"


@cache
def why_no_real_gpu() -> str:
    """Why numbers and times mean nothing here; empty where a real GPU computes."""
    simulated = "it asks for right numbers or times, and the GPU here is simulated"
    return simulated if is_simulated() else why_no_gpu()
