"""Files of recordings: written as it goes, read back whole, and what is wrong with one is said."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recordings.making import AT, Clock, header_line, packed, recorded, refusal, script
from tui.core.events import LogLine, RequestSent
from tui.recordings import lines
from tui.recordings.lines import AnyEvent, RecordingError, scan_recording
from tui.recordings.recorder import Recorder
from workloads.protocol import messages

NAMES = ("x.jsonl", "x.jsonl.gz")
LINE = lines.encode_event(1.0, LogLine("runner", "x"))
LONGEST_LINE = 2**18
"""Bytes: what takes seconds to read with the program's own limit is refused as well with this."""


def played(path: Path) -> list[AnyEvent]:
    return [lines.decode_event(entry) for entry in lines.read_events(path)]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_recorded_is_read_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    said = recorded(path, title="a test")
    found = lines.scan_recording(path)
    assert (found.seconds, found.events, found.cut) == (3.75, len(said), False)
    assert (found.recording.at, found.recording.title) == (AT, "a test")
    assert found.recording.date == "2025-06-15T15:06:40+00:00"
    assert played(path) == said
    assert [entry.at for entry in lines.read_events(path)] == [0, 0.5, 1.5, 1.75, 3.75]


@pytest.mark.parametrize("simulated", [False, True])
def test_whether_the_gpus_were_simulated_is_in_the_first_line(
    tmp_path: Path, simulated: bool
) -> None:
    recorded(tmp_path / "x", simulated=simulated)
    assert lines.scan_recording(tmp_path / "x").recording.simulated is simulated


def test_a_recording_from_before_that_was_told_is_of_hardware(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(header_line().replace(b',"simulated":false', b""))
    assert not lines.scan_recording(tmp_path / "x").recording.simulated


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    for name in NAMES:
        recorded(tmp_path / name, script() * 20)
    plain, small = ((tmp_path / name).stat().st_size for name in NAMES)
    assert small < plain / 10


@pytest.mark.parametrize("name", NAMES)
def test_each_line_is_in_the_file_before_the_next_is_known(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    recorder = Recorder(path)
    said: list[AnyEvent] = []
    for _, event in script():
        recorder.write(event)
        said.append(event)
        assert played(path) == said
        assert lines.scan_recording(path).cut is name.endswith("gz")


def test_a_recording_is_its_owners_alone_and_takes_no_other_files_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        Recorder(path)


def test_requests_are_written_and_are_not_played(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorder = Recorder(path)
    recorder.write(RequestSent("runner", messages.Cancel("run-1")))
    recorder.close()
    assert played(path) == []
    assert b'"to":"runner","message":{"type":"cancel","id":"run-1"}' in path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_ends_the_recording_once_and_what_was_written_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    found = Recorder(path)
    ends: list[str] = []
    found.on_end = ends.append
    (_, first), *rest = script()
    found.write(first)

    def full(file: int, data: bytes) -> int:
        os.pwrite(file, data[:3], path.stat().st_size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for _, event in rest:
            found.write(event)
        found.close()
    assert ends == [f"the recording ends here: {path}: No space left on device"]
    assert played(path) == [first]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    for name in NAMES:
        recorded(folder / name)
    return {name: (folder / name).read_bytes() for name in NAMES}


law = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@law
@given(name=st.sampled_from(NAMES), share=st.floats(0, 1))
def test_a_file_that_breaks_off_plays_what_is_whole_of_it(
    tmp_path: Path, whole: dict[str, bytes], name: str, share: float
) -> None:
    path = tmp_path / "cut"
    data = whole[name]
    path.write_bytes(data[: int(share * (len(data) - 1))])
    said = [event for _, event in script()]
    refused = refusal(lambda: lines.scan_recording(path))
    assert refused is None or "first line" in refused
    if refused is None:
        events = played(path)
        assert events == said[: len(events)]
        assert len(events) == lines.scan_recording(path).events


@law
@given(name=st.sampled_from(NAMES), share=st.floats(0, 1), byte=st.integers(1, 255))
def test_a_file_with_a_wrong_byte_plays_or_is_refused_in_one_line(
    tmp_path: Path, whole: dict[str, bytes], name: str, share: float, byte: int
) -> None:
    path = tmp_path / "damaged"
    data = bytearray(whole[name])
    data[int(share * (len(data) - 1))] ^= byte
    path.write_bytes(data)
    refused = refusal(lambda: lines.scan_recording(path))
    assert refused is None or "\n" not in refused


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a recording: its first line"),
        (b"\x80\x04K\x01.\n", "is not a recording: its first line"),
        (header_line()[:20], "breaks off in its first line"),
        (header_line() + LINE + b"{}\n" + LINE, "line 3: it holds no message"),
        (header_line() + LINE + lines.encode_event(0.5, LogLine("runner", "x")), "line 3 is older"),
        (header_line() + b'{"t":1,"from":"me","message":{}}\n', "line 2: it is from 'me'"),
        (header_line() + b'{"t":true,"from":"runner","message":{}}\n', "line 2: its time is True"),
        (packed(header_line() + LINE) + b"more", "something follows its end"),
        (packed(header_line() + LINE)[:12] + b"\xff" * 40, "it cannot be unpacked"),
        (b"x" * (LONGEST_LINE + lines.CHUNK + 1), "a line has more than"),
        (packed(b" " * (LONGEST_LINE * 2)), "a line has more than"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, says: str
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", LONGEST_LINE)
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=says) as caught:
        lines.scan_recording(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="none: does not exist"):
        lines.scan_recording(tmp_path / "none")


@pytest.mark.parametrize("digits", [20, 47, 400, 4000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_that_no_device_has_is_refused_in_one_line(
    tmp_path: Path, sign: str, digits: int
) -> None:
    path = tmp_path / "x.jsonl"
    size = sign + "9" * digits
    bad = b'{"t":2,"from":"monitor","message":{"type":"sample","used":%s}}\n' % size.encode()
    path.write_bytes(header_line() + LINE + bad)
    assert refusal(lambda: lines.scan_recording(path)) == (
        f"{path} is damaged: line 3: it holds an integer of {digits} digits"
    )


def test_an_integer_of_64_bits_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    largest = b'{"t":2,"from":"monitor","message":{"type":"sample","used":%d}}\n' % (2**64 - 1)
    named = lines.encode_event(3.0, LogLine("runner", "9" * 60))
    path.write_bytes(header_line() + largest + named)
    assert lines.scan_recording(path).events == 2


def test_a_whole_recording_has_no_problem_and_a_cut_one_says_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    recorder = Recorder(tmp_path / "x", now=lambda: AT, elapsed=clock)
    assert recorder.problem == ""
    monkeypatch.setattr("tui.recordings.recorder.write_whole", full)
    clock.wait(67)
    recorder.write(LogLine("workbench", "a"))
    recorder.close()
    where = tmp_path / "x"
    assert recorder.problem == f"the recording is cut after 1:07: {where}: No space left on device"


def test_an_end_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.gz"
    recorder = Recorder(path, now=lambda: AT, elapsed=Clock())
    recorder.write(LogLine("workbench", "a"))
    monkeypatch.setattr("tui.recordings.recorder.write_whole", full)
    recorder.close()
    assert recorder.problem == f"the end of the recording is lost: {path}: No space left on device"
    assert scan_recording(path).cut


def full(_file: int, _data: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
