"""Fixtures for tests of children: a runner, and a state folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ceilings
from tests.children.driver import MISBEHAVING, Driver


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state folder with ceilings of this machine."""
    folder = tmp_path / "state"
    ceilings.keep(folder)
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(folder))
    return folder


@pytest.fixture(scope="session")
def runner() -> Iterator[Driver]:
    """Return a runner for tests that change nothing of it but its worker."""
    with Driver(MISBEHAVING, ceilings=ceilings.made_up()) as driver:
        driver.ready()
        yield driver
