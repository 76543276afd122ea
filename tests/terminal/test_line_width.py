"""What the commands print on a terminal of 80 columns: no row is wider, and no word is cut."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests import ceilings
from tests.screens.every_screen import SNAPSHOT, kept_results
from tests.terminal.terminal import PROGRAM
from tests.tiers import VARIANT
from tui.core.text.glyphs import GLYPHS
from tui.kit.lines import cell_len
from tui.results.store import store_path
from tui.results.store.database import Database

COLUMNS = 80
COMMANDS = (
    pytest.param("doctor", marks=VARIANT),
    "devices",
    "list",
    "list matmul",
    "config",
    "results --limit 8",
    "results show {id}",
    "results compare driver=570 driver=580",
    "snapshot {snapshot}",
    pytest.param("snapshot {snapshot} --at 500", marks=VARIANT),
    "snapshot diff {snapshot} {snapshot}",
    "watch --no-screen -- {python} -c pass",
    # Each of these starts torch, and measures for seconds.
    pytest.param(
        "compare conv2d --flag mkldnn.enabled=on,off --pairs 2 --quick --no-store"
        " --set batch=1 --set size=16",
        marks=VARIANT,
    ),
    pytest.param("fleet --device cpu --rounds 2", marks=VARIANT),
    pytest.param("links --device cpu --largest 1", marks=VARIANT),
)


def print_on_terminal(argv: list[str]) -> str:
    """Return what a command prints to a terminal of 80 columns; its stderr is none."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env=environment | {"TERM": "xterm-256color"},
    ) as process:
        os.close(follower)
        found = b""
        while True:
            try:
                data = os.read(leader, 1 << 16)
            except OSError:  # Linux's end of a terminal that nobody has open any more
                break
            if not data:
                break
            found += data
        os.close(leader)
    assert process.returncode in (0, 1), found
    return found.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_row_is_wider_than_the_terminal_and_no_word_is_cut(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ceilings.keep(tmp_path)
    results = kept_results()
    with Database(store_path(), writing=True) as database:
        database.add(results)
    words = {"snapshot": SNAPSHOT, "python": sys.executable, "id": results[0].record.id}
    text = print_on_terminal([*PROGRAM, *command.format(**words).split()])
    rows = [row.rstrip("\r") for row in text.split("\n")]
    assert any(rows)
    for row in rows:
        # A path or a name has no place to break at.
        longest = max(map(cell_len, row.split()), default=0)
        assert cell_len(row) <= max(COLUMNS, longest + COLUMNS // 2), row
        assert cell_len(row) <= COLUMNS or longest > COLUMNS // 2, row
    assert GLYPHS.ellipsis not in text
