"""A run's output on disk: bounded, and never an error for whoever writes it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tui.watch.runs.bounded_log import NAME, OLDER, BoundedLog
from tui.watch.runs.drain import MOST_BUFFERED, Forward

HEADING = 200
"""More bytes than the line at the head of a file has."""


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=80), st.integers(60, 3000))
def test_its_newest_part_is_kept_and_is_read_by_its_place(parts: list[bytes], limit: int) -> None:
    told: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = BoundedLog(folder, limit, told.append)
        places = [log.append(part) for part in parts]
        files = [folder / each for each in (OLDER, NAME)]
        kept = b"".join(file.read_bytes() for file in files if file.exists())
        assert len(kept) <= limit + 2 * HEADING
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in files if file.exists())
        for place, part in zip(places, parts, strict=True):
            assert place is not None
            assert log.read(place, len(part)) in (part, b"")
        if parts:
            assert places[-1] is not None
            assert log.read(places[-1], 50) == parts[-1]
            assert kept.endswith(parts[-1])
        if sum(map(len, parts)) <= limit // 2:
            assert kept == b"".join(parts)
    assert told == []


def test_what_was_dropped_is_reported(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path, 4096, lambda _: None)
    for number in range(100):
        log.append(b"%099d\n" % number)
    assert (
        (tmp_path / NAME)
        .read_bytes()
        .startswith(b"[gpu-workbench: earlier output is in output.1.log; ")
    )
    assert b"KiB before that are dropped]\n" in (tmp_path / NAME).read_bytes()[:HEADING]


def test_another_one_goes_on_where_it_ended(tmp_path: Path) -> None:
    for number in range(50):
        assert BoundedLog(tmp_path, 4096, lambda _: None).append(b"%099d\n" % number) is not None
    kept = (tmp_path / OLDER).read_bytes() + (tmp_path / NAME).read_bytes()
    assert len(kept) <= 4096 + 2 * HEADING
    assert kept.endswith(b"48\n" + b"%099d\n" % 49)


def test_what_cannot_be_written_is_reported_once_and_it_goes_on_later(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    told: list[str] = []
    now = [0.0]
    log = BoundedLog(tmp_path, 4096, told.append, lambda: now[0])
    assert log.append(b"first\n") is None
    now[0] = 100.0
    assert log.append(b"second\n") is None
    assert told == ["Is a directory"]
    (tmp_path / NAME).rmdir()
    now[0] = 200.0
    place = log.append(b"third\n")
    assert place is not None
    assert log.read(place, 100) == b"third\n"
    assert (tmp_path / NAME).read_text() == (
        "\n[gpu-workbench: 13 B of output is missing here: Is a directory]\nthird\n"
    )


def read_all(forward: Forward, reader: int) -> bytes:
    got = b""
    while forward.waiting:
        got += os.read(reader, 1 << 20)
        forward.flush()
    return got + os.read(reader, 1 << 20)


def test_a_slow_reader_gets_all_that_the_log_has_and_a_note_of_the_rest(
    tmp_path: Path,
) -> None:
    reader, writer = os.pipe()
    log = BoundedLog(tmp_path, 64 << 20, lambda _: None)
    forward = Forward(writer, log)
    sent = [bytes([65 + number % 26]) * 50_000 for number in range(100)]
    for data in sent:
        forward.send(data, log.append(data))
    assert forward.waiting
    assert read_all(forward, reader) == b"".join(sent)
    # Without a log, a bounded part is held in memory.
    for _ in range(200):
        forward.send(b"z" * 50_000, None)
    got = read_all(forward, reader)
    forward.close()
    os.close(reader)
    assert MOST_BUFFERED - 50_000 <= got.count(b"z") <= MOST_BUFFERED + (1 << 20)
    left_out = (200 * 50_000 - got.count(b"z")) / (1 << 20)
    assert f"[gpu-workbench: {left_out:.1f} MiB of output is missing here" in got.decode()
