"""The catalogue that is kept is the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

import workloads
from tui.core import state_folder
from workloads.protocol import wire


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the modules were asked."""
    asked: list[int] = []
    genuine = state_folder.imported_catalogue

    def counted() -> object:
        asked.append(1)
        return genuine()

    monkeypatch.setattr(state_folder, "imported_catalogue", counted)
    return asked


def test_it_is_imported_once_and_then_read(imports: list[int], state: Path) -> None:
    first = state_folder.catalogue()
    assert state_folder.catalogue() == first == state_folder.imported_catalogue()
    assert len(imports) == 2  # the second was asked by the line above
    assert (state / "catalogue.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"\xff\x00", b'{"type":"kept_catalogue","stamp":1}\n']
)
def test_a_damaged_file_is_written_anew(content: bytes, state: Path) -> None:
    state.mkdir()
    (state / "catalogue.json").write_bytes(content)
    assert state_folder.catalogue() == state_folder.imported_catalogue()
    assert wire.decode(
        (state / "catalogue.json").read_bytes(), (state_folder.StoredCatalogue,)
    ).workloads


@pytest.mark.parametrize("folder", [".", "catalog", "ranks", "catalog/new/newer"])
def test_a_changed_file_of_the_package_is_imported_anew(
    folder: str, imports: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "workloads"
    for name in (".", "catalog", "ranks", "catalog/new/newer"):
        (package / name).mkdir(parents=True, exist_ok=True)
        (package / name / "module.py").write_text("A = 1\n")
    monkeypatch.setattr(workloads, "__path__", [str(package)])
    assert state_folder.catalogue() == state_folder.catalogue()
    assert len(imports) == 1
    (package / folder / "module.py").write_text("A = 12\n")
    state_folder.catalogue()
    assert len(imports) == 2


def test_a_place_that_is_no_folder_costs_the_time_only(imports: list[int], state: Path) -> None:
    state.write_text("a file")
    assert state_folder.catalogue() == state_folder.catalogue()
    assert len(imports) == 2
