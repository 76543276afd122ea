"""What holds for every test: the terminal draws block elements, and nobody's home is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tui.text import glyphs

# An example may be the first of a process to start torch's threads, beside whatever else runs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _unicode_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.UNICODE)


@pytest.fixture(autouse=True)
def _own_files(monkeypatch: pytest.MonkeyPatch, _home: Path, tmp_path: Path) -> None:
    """Settings and state of whoever runs the tests are neither read nor written.

    What one test has the program remember must not be another's.
    """
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(_home / "state"))
    for name in ("THEME", "REFRESH", "DEVICE", "PYTHON", "MOUSE", "ASCII"):
        monkeypatch.delenv(f"GPU_WORKBENCH_{name}", raising=False)
    monkeypatch.delenv("TEXTUAL_THEME", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
