"""``--record`` and ``replay`` as programs, on a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recordings.making import header_line, recorded
from tests.terminal.terminal import PROGRAM, Terminal
from tui.cli.commands.replay import DEMO
from tui.recordings.source import look_through

WITHOUT_TORCH = (
    "import sys; sys.modules.update(torch=None, pynvml=None, psutil=None);"
    "from tui.cli.main import main; sys.exit(main())"
)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [*PROGRAM, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_what_was_recorded_until_a_kill_is_played(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    variables = {"GPU_WORKBENCH_STATE": str(tmp_path / "state")}
    argv = (*PROGRAM, "--record", str(path), "--redact")
    with Terminal(argv, variables=variables) as terminal:
        terminal.until_shows("ready", "transfer")
        terminal.signal(signal.SIGKILL)
        terminal.exit_code()
    with Terminal((*PROGRAM, "replay", str(path), "--speed", "max"), columns=160) as terminal:
        terminal.until_shows("REPLAY", "end", "transfer")
        terminal.keys("l")
        terminal.until_shows("recording of", "it breaks off in the middle of a line")
        terminal.keys("q")
        assert terminal.exit_code() == 0


def test_the_recording_that_comes_along_plays_without_torch_and_says_that_it_is_scripted() -> None:
    argv = (sys.executable, "-c", WITHOUT_TORCH, "replay", "--demo", "--speed", "max")
    with Terminal(argv, columns=160) as terminal:
        text = terminal.until_shows("REPLAY", "end", "scripted GPU")
        assert "NVIDIA" not in text
        assert len(terminal.family()) == 1
        terminal.keys("l")
        terminal.until_shows("the GPUs are scripted, no hardware was there")


def test_the_recording_that_comes_along_is_small_whole_and_names_nobody() -> None:
    import tui.recordings as place

    path = Path(place.__path__[0]) / DEMO
    found = look_through(path)
    assert path.stat().st_size < 200_000
    assert not found.cut
    assert found.recording.redacted
    assert "scripted" in found.recording.title


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"root:x:0:0\n", "is no recording: its first line is not that of one; make one with"),
        (header_line(version=9), "is a recording of format 9, this program plays 1"),
        (header_line() + b"{}\n", "is damaged: line 2: it holds no message"),
    ],
)
def test_a_file_that_cannot_be_played_is_one_line_and_exit_code_1(
    tmp_path: Path, data: bytes, says: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    done = command("replay", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert says in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a recording"),
        (["x", "y"], "name a recording"),
        (["x", "--demo"], "name a recording"),
        (["x", "--speed", "0"], "--speed 0: give a number above 0"),
        (["x", "--speed", "nan"], "--speed nan: give a number above 0"),
    ],
)
def test_wrong_usage_of_replay_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    done = command("replay", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert says in line


def test_a_replay_without_a_terminal_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "x")
    done = command("replay", str(tmp_path / "x"))
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


def test_a_recording_takes_no_other_files_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("mine")
    with Terminal((*PROGRAM, "--record", str(path))) as terminal:
        terminal.until_shows("it is there already; name another file")
        assert terminal.exit_code() == 2
    assert path.read_text() == "mine"
