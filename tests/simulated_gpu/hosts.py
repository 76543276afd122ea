"""A host behind sshd whose processes find this process's simulated GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.rig import WHY_NO_RIG, Rig, make_rig
from tests.simulated_gpu import place

ROOT = Path(__file__).parents[2]


def needs_host(seconds: float, reason: str) -> list[pytest.MarkDecorator]:
    """Return the marks of the tests that use it.

    Args:
        seconds: the most that one of them may take.
        reason: why they need simulated GPUs.
    """
    return [
        pytest.mark.simulated_gpu,
        pytest.mark.skipif(bool(WHY_NO_RIG), reason=WHY_NO_RIG or "there are hosts"),
        pytest.mark.skipif(not place.is_simulated(), reason=reason),
        pytest.mark.timeout(seconds),
    ]


@contextmanager
def make_gpu_host() -> Iterator[Rig]:
    """Create the host ``box1``."""
    gpu = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("LD_", "SIMULATED_GPU", "PYTORCH_", "CUDA"))
    }
    with make_rig(1) as found:
        found.set_environment(1, {**gpu, "PYTHONPATH": str(ROOT)})
        yield found
