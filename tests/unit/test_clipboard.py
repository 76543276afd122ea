"""What is copied lies in a file too, and the message says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.kit.terminal.clipboard import copy_message, store_copy


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_file_has_all_of_the_newest_copy_and_is_the_users_own(state: Path) -> None:
    store_copy("first")
    path = store_copy("µ second\n")
    assert path.parent == state
    assert path.read_text(encoding="utf-8") == "µ second\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_message_names_the_file(state: Path) -> None:
    words = copy_message("matmul", "figures")
    assert words.startswith("matmul copied, if the terminal allows it (OSC 52), and written")
    assert str(state / "copied.txt") in words


def test_a_home_is_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    assert "written to ~/state/copied.txt" in copy_message("x", "y")


def test_where_no_file_can_be_written_the_message_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "taken"))
    assert "not written to a file: " in copy_message("x", "y")
