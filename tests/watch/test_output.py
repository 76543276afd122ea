"""The end of a run's output: as a terminal would leave it, bounded, and harmless."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text.glyphs import clean
from tui.watch.session import followed_file
from tui.watch.session.followed_file import FollowedFile, render_line


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def add(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_lines_come_as_they_are_written(log: Path) -> None:
    read = FollowedFile(log)
    assert (read.read(), read.lines, read.problem) == (False, (), "")
    add(log, b"one\ntw")
    assert (read.read(), read.lines) == (True, ("one", "tw"))
    add(log, b"o\nthree")
    assert (read.read(), read.lines) == (True, ("one", "two", "three"))
    assert not read.read()
    # Half a character is waited for.
    for part in ("é".encode()[:1], "é".encode()[1:], b"\xff\n"):
        add(log, part)
        read.read()
    assert read.lines == ("one", "two", "threeé\ufffd")


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (" 10%|#\r 20%|##", " 20%|##"),
        (" 99%|#\r100%|##\r", "100%|##"),
        ("dos\r", "dos"),
        ("\x1b[31mred\x1b[0m and \x1b[1;32;40mmore\x1b[K", "red and more"),
        ("\x1b]0;a title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "textlink"),
        ("\x1b7\x1b[?25l\x1b(Bx", "x"),
        ("a\tb", "a       b"),
        ("turn \u202ethis", "turn ?this"),
        ("bell \x07 nul \x00", "bell ? nul ?"),
        ("x" * 10_000, "x" * followed_file.MOST_CHARACTERS),
    ],
)
def test_a_line_is_what_a_terminal_would_leave(line: str, left: str) -> None:
    assert render_line(line) == left


@given(st.text(max_size=200))
def test_whatever_is_written_is_harmless(line: str) -> None:
    assert clean(render_line(line)) == render_line(line)
    assert "\n" not in render_line(line)


@given(st.binary(max_size=400), st.lists(st.integers(1, 50)))
def test_how_it_is_cut_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int]
) -> None:
    log = tmp_path_factory.mktemp("run") / "output.log"
    log.touch()
    parts = FollowedFile(log)
    rest = data
    for cut in cuts:
        parts.read()
        add(log, rest[:cut])
        rest = rest[cut:]
    parts.read()
    add(log, rest)
    parts.read()
    whole = FollowedFile(log)
    whole.read()
    assert parts.lines == whole.lines


def test_a_bar_of_progress_is_one_line_of_bounded_size(log: Path) -> None:
    read = FollowedFile(log)
    for number in range(2000):
        add(log, b"\r%4d/2000 [####      ]" % number)
        read.read()
    assert read.lines == ("1999/2000 [####      ]",)
    assert len(read._unfinished) <= 2 * followed_file.MOST_CHARACTERS


def test_of_much_output_the_end_is_kept(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_file, "MOST_BYTES", 100)
    add(log, b"".join(b"line %05d\n" % number for number in range(1000)))
    read = FollowedFile(log, 100)
    assert read.read()
    assert read.lines == tuple(f"line {number:05}" for number in range(991, 1000))
    add(log, b"".join(b"more %05d\n" % number for number in range(1000)))
    assert read.read()
    assert read.lines[9] == "[10.6 KiB more, too fast to be shown, are in the file]"
    assert read.lines[-1] == "more 00999"
    add(log, b"x\n" * (followed_file.MOST_LINES + 50))
    for _ in range(200):
        read.read()
    assert len(read.lines) <= followed_file.MOST_LINES


def test_a_file_that_was_emptied_is_read_anew(log: Path) -> None:
    read = FollowedFile(log)
    add(log, b"one\ntwo\n")
    read.read()
    os.truncate(log, 0)
    read.read()
    add(log, b"three\n")
    read.read()
    assert read.lines == ("one", "two", "three")


def test_what_cannot_be_read_is_a_line(log: Path) -> None:
    log.mkdir()
    read = FollowedFile(log)
    assert read.read()
    assert read.problem == "its output cannot be read: Is a directory"
    assert not read.read()
