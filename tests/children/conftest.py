"""What tests of children share: a runner, and a state folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ceilings
from tests.children.driver import MISBEHAVING, Driver


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder in which the ceilings of this box are known."""
    folder = tmp_path / "state"
    ceilings.keep(folder)
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(folder))
    return folder


@pytest.fixture(scope="session")
def runner() -> Iterator[Driver]:
    """A runner for tests that leave it as they found it, but for its worker."""
    with Driver(MISBEHAVING, ceilings=ceilings.made_up()) as driver:
        driver.ready()
        yield driver
