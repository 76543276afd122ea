"""Loading weights: the file's layout, its page cache, every way to load it, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import column, ok, ran, ran_under
from workloads.catalog.llm import weights
from workloads.catalog.shared import safetensors
from workloads.declare.place import Place
from workloads.declare.workload import Skip
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.messages import Phase

MIB = 2**20
SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
TENSORS = st.dictionaries(
    st.text(min_size=1), st.tuples(st.sampled_from(list(safetensors.ITEM_BYTES)), SHAPES)
)


@given(TENSORS)
def test_a_header_gives_back_what_was_laid_out(
    tensors: dict[str, tuple[str, tuple[int, ...]]],
) -> None:
    tensors.pop(safetensors.METADATA, None)
    entries = safetensors.lay_out((name, *rest) for name, rest in tensors.items())
    header = safetensors.encode_header(entries)
    size = entries[-1].end if entries else 0
    length = safetensors.header_length(header[:8], len(header) + size)
    assert len(header) == 8 + length
    assert len(header) % 8 == 0
    parsed = safetensors.parse_header(header[8:], size)
    # Tensors without numbers share their place with the next one.
    assert sorted(parsed, key=lambda entry: entry.name) == sorted(
        entries, key=lambda entry: entry.name
    )


def test_a_header_written_by_hand_is_parsed() -> None:
    text = (
        b'{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},'
        b'"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}'
    )
    start = len(text).to_bytes(8, "little")
    assert safetensors.header_length(start, 8 + len(text) + 8) == len(text)
    first, second = safetensors.parse_header(text, 8)
    assert (first.name, first.dtype, first.shape, first.end) == ("a", "BF16", (2, 1), 4)
    assert (second.name, second.begin, second.end) == ("b", 4, 8)


@pytest.mark.parametrize(
    ("described", "size", "why"),
    [
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, 8, "expected 4 from 0"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, 4, "expected 8 from 0"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, 9, "the file has 9"),
        ({"a": {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]}}, 4, "'F7', expected one of"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, 4, "whole numbers"),
        ({"a": {"dtype": "F32", "shape": [1]}}, 4, "two data_offsets are expected"),
        ([], 0, "a JSON object is expected"),
    ],
)
def test_a_wrong_header_is_refused_with_the_reason(described: object, size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        safetensors.parse_header(json.dumps(described).encode(), size)


@pytest.mark.parametrize(
    ("start", "why"),
    [(b"\x01", "1 bytes"), ((10**9).to_bytes(8, "little"), "a header of 1000000000 bytes")],
)
def test_a_file_that_is_too_short_for_its_header_is_refused(start: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        safetensors.header_length(start, 100)


def test_a_written_file_is_hot_and_cold_once_the_system_dropped_it(tmp_path: Path) -> None:
    if not weights.can_drop():
        pytest.skip(weights.NO_FADVISE)
    path = tmp_path / "file"
    path.write_bytes(bytes(MIB))
    with path.open("r+b", buffering=0) as file:
        written = weights.WeightFile(file, {})
        before = written.cached_share()
        if before is None:
            pytest.skip("this system does not say what its page cache has")
        assert before == 1.0
        written.drop()
        after = written.cached_share()
        assert after is not None
        if after == 1.0:
            pytest.skip(f"the file system of {tmp_path} keeps its files in memory")
        file.seek(0)
        assert after < 0.5
        assert file.read() == bytes(MIB)
        assert written.cached_share() == 1.0


def test_every_way_loads_the_same_tensors() -> None:
    place = Place("cpu")
    made: list[torch.Tensor] = []

    def make(numbers: int) -> torch.Tensor:
        made.append(place.host_randn(numbers))
        return made[-1]

    written = weights.write_weights(make, MIB)
    try:
        _, entries = written.read_header()
        assert [entry.shape for entry in entries] == [(MIB // 2 // weights.TENSORS,)] * 16
        for load in (weights._load_in_turns, weights._load_mapped):
            loaded = load(written, place)
            assert list(loaded) == [entry.name for entry in entries]
            for tensor, numbers in zip(loaded.values(), made, strict=True):
                assert torch.equal(tensor, numbers.to(torch.bfloat16))
    finally:
        written.file.close()


def test_two_buffers_take_turns_and_the_last_part_is_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "CHUNK", MIB // 3)
    test_every_way_loads_the_same_tensors()


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_bytes_are_counted_and_the_ways_compared(cache: str) -> None:
    result = ran("load_weights", mib=1, cache=cache)
    if cache == "cold" and result.status == "skipped":
        pytest.skip(result.reason or "")
    assert result.status == "ok", result.trace
    assert result.time is not None
    assert result.rates.byte_per_s is not None
    # Read from the file, written, read again, written to the copy.
    moved = result.rates.byte_per_s * result.time.median_s
    assert moved == pytest.approx(4 * MIB)
    assert result.check is not None
    assert result.check.passed
    ways = ["read, then copied", "two buffers in turns", "mapped"]
    assert column(result, "hot", "variant") == ways
    if result.figures["read_cold"].value is not None:
        assert column(result, "cold", "variant") == ways


def test_a_system_that_keeps_the_file_gives_no_cold_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights.WeightFile, "cached_share", lambda _file: 1.0)
    result = ran("load_weights", mib=1, cache="cold")
    assert result.status == "skipped"
    assert "still caches 100% of the file" in (result.reason or "")
    hot = ok("load_weights", mib=1)
    assert hot.figures["read_cold"].value is None
    assert "still caches 100%" in hot.unavailable["figures.read_cold"]
    assert any(line.startswith("no cold times: ") for line in hot.log)


def test_a_system_that_does_not_say_what_it_caches_leaves_the_share_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights.WeightFile, "cached_share", lambda _file: None)
    result = ok("load_weights", mib=1)
    assert result.figures["still_cached"].value is None
    assert "a request that it may decline" in result.unavailable["figures.still_cached"]


def test_a_wrong_byte_on_the_disk_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    write = weights.write_weights

    def damaged(*args: object) -> weights.WeightFile:
        written = write(*args)  # type: ignore[arg-type]
        written.file.seek(-1, os.SEEK_END)
        last = written.file.read(1)
        written.file.seek(-1, os.SEEK_END)
        written.file.write(bytes([last[0] ^ 1]))
        return written

    monkeypatch.setattr(weights, "write_weights", damaged)
    result = ran("load_weights", mib=1)
    assert result.status == "failed"
    assert "wrong result" in (result.reason or "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = _open_files()
    yield tmp_path
    assert list(tmp_path.iterdir()) == []
    assert _open_files() == before


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_full_disk_is_reported_in_one_line_before_anything_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=MIB // 2))
    result = ran("load_weights", mib=1)
    assert result.status == "skipped"
    assert result.reason == (
        f"cannot write 2 MiB to {folder}: 0 MiB are free; set mib= to less, or TMPDIR to another "
        "folder"
    )


def test_a_disk_that_fills_up_while_writing_is_reported_in_one_line(folder: Path) -> None:
    def make(_numbers: int) -> torch.Tensor:
        raise OSError(28, "No space left on device")

    with pytest.raises(Skip, match=f"cannot write 2 MiB to {folder}: No space left on device; set"):
        weights.write_weights(make, MIB)


class CancelIn(Control):
    """Cancels at the first report of a phase."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase

    def report(self, phase: Phase, *_args: object, **_more: object) -> None:
        if phase == self._phase:
            raise Cancelled


@pytest.mark.parametrize("phase", ["warm-up", "measuring", "figures"])
def test_nothing_is_left_of_a_cancelled_run(folder: Path, phase: Phase) -> None:
    result = ran_under(CancelIn(phase), "load_weights", {"mib": 1})
    assert result.status == "cancelled"
    assert folder.exists()


def test_nothing_is_left_of_a_finished_run(folder: Path) -> None:
    ok("load_weights", mib=1)
    assert folder.exists()
