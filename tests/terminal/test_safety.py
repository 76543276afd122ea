"""Nothing is listened on, and what is written is for the user alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.terminal.terminal import Terminal

NOTHING_ELSE = 0o077


def test_no_socket_is_open_in_any_process_and_no_file_can_be_read_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "made by the program"
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(state))
    before = os.umask(0o000)  # what is written must not depend on it
    try:
        with Terminal(columns=100, rows=30) as terminal:
            terminal.until_shows("ready")
            terminal.keys("R")
            terminal.until_shows("y yes")
            terminal.keys("y")
            terminal.until_shows("running")
            # The program, the monitor, the runner and its worker.
            terminal.until(lambda _text: len(terminal.family()) >= 4)
            family = terminal.family()
            assert [found for process in family for found in process.net_connections("inet")] == []
            family[-1].send_signal(signal.SIGSEGV)
            terminal.until(lambda _text: any(state.rglob("*.txt")))
            terminal.keys("q")
            terminal.until_shows("y yes")
            terminal.keys("y")
            assert terminal.exit_code() == 0
    finally:
        os.umask(before)
    written = [state, *state.rglob("*")]
    assert len([path for path in written if path.is_file()]) >= 1
    for path in written:
        assert path.stat().st_uid == os.getuid()
        assert path.stat().st_mode & NOTHING_ELSE == 0, path
