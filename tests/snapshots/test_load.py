"""Every container and form in which a snapshot is kept, and everything that is none."""

from __future__ import annotations

import copyreg
import gc
import gzip
import io
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import raw
from tests.snapshots.generator import Options, generate
from tests.snapshots.helpers import OPTIONS, SEEDS
from tui.core.child.inside import Cgroup
from tui.snapshots.model.snapshot import Snapshot, SnapshotError
from tui.snapshots.read import columns, limits, source
from tui.snapshots.read.load import estimate, load
from tui.snapshots.read.normalise import normalise

GIB = 1 << 30
FILES = sorted((Path(__file__).parent / "files").glob("*.pickle"))


def contents(snapshot: Snapshot) -> tuple[Any, ...]:
    """All that does not depend on how the file was written, nor on which stream came first."""
    traces = [
        (
            entry.index,
            entry.segments,
            bytes(entry.trace.action),
            entry.trace.address.tolist(),
            entry.trace.size.tolist(),
            [snapshot.streams[number] for number in entry.trace.stream],
            entry.trace.stack.tolist(),
            entry.trace.time_us.tolist(),
            entry.trace.pool.tolist(),
            entry.trace.context.tolist(),
            entry.trace.device_free,
            entry.trace.unknown,
        )
        for entry in snapshot.devices
    ]
    streams = sorted(snapshot.streams)
    tables = (snapshot.frames, snapshot.stacks, streams, snapshot.pools, snapshot.contexts)
    return traces, tables, snapshot.settings, snapshot.annotations, snapshot.notes


EXPECTED = contents(normalise(raw.snapshot()))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_of_any_protocol(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(pickle.dumps(raw.snapshot(), protocol))
    snapshot = load(path)
    assert contents(snapshot) == EXPECTED
    named = protocol if protocol >= 2 else "0 or 1"
    assert snapshot.container == f"pickle protocol {named}"
    assert (snapshot.file, snapshot.byte, snapshot.form) == (
        str(path),
        path.stat().st_size,
        "snapshot",
    )


@given(seed=SEEDS, options=OPTIONS, protocol=st.integers(0, 5))
def test_any_file_is_what_its_objects_are(seed: int, options: Options, protocol: int) -> None:
    objects, _ = generate(seed, options)
    stream = io.BytesIO(pickle.dumps(objects, protocol))
    expected = contents(normalise(objects))
    with pytest.MonkeyPatch.context() as patched:
        # A small file then comes in many pieces, and its traces in many batches.
        patched.setattr(source, "PIECE", 256)
        patched.setattr(columns, "BATCH", 7)
        assert contents(load(stream)) == expected


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_text("\ufeff\n " + json.dumps(raw.snapshot()), encoding="utf-8")
    snapshot = load(path)
    assert contents(snapshot) == EXPECTED
    assert snapshot.container == "JSON"
    assert snapshot.pools == ((0, 0),)


@pytest.mark.parametrize("name", ["pickle", "JSON"])
def test_packed_with_gzip(name: str, tmp_path: Path) -> None:
    whole = pickle.dumps(raw.snapshot(), 4)
    path = tmp_path / "packed"
    path.write_bytes(
        gzip.compress(json.dumps(raw.snapshot()).encode() if name == "JSON" else whole)
    )
    snapshot = load(path)
    assert contents(snapshot) == EXPECTED
    assert snapshot.container == ("JSON, gzip" if name == "JSON" else "pickle protocol 4, gzip")
    assert snapshot.byte == path.stat().st_size


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_from_standard_input(packed: bool) -> None:
    whole = pickle.dumps(raw.snapshot(), 4)
    code = (
        "from tui.snapshots.read.load import load; s = load('-');"
        "print(s.file, s.container, s.byte, len(s.devices[0].trace))"
    )
    piped = gzip.compress(whole) if packed else whole
    done = subprocess.run(
        [sys.executable, "-c", code], input=piped, capture_output=True, check=True
    )
    container = "pickle protocol 4, gzip" if packed else "pickle protocol 4"
    assert done.stdout.decode().strip() == f"- {container} {len(piped)} 7"


def test_from_a_pipe_that_gives_a_few_bytes_at_a_time() -> None:
    whole = pickle.dumps(raw.snapshot(), 2)
    reading, writing = os.pipe()

    def write() -> None:
        with io.FileIO(writing, "w") as stream:
            stream.writelines(whole[start : start + 7] for start in range(0, len(whole), 7))

    writer = threading.Thread(target=write)
    writer.start()
    with io.FileIO(reading) as stream:
        assert contents(load(cast(BinaryIO, stream))) == EXPECTED
    writer.join()


def test_a_stream_stays_open_and_a_sequence_of_pickles_is_noted() -> None:
    stream = io.BytesIO(pickle.dumps(raw.snapshot()) + b"more")
    assert load(stream).notes == ("bytes after the end of the pickle were not read",)
    assert not stream.closed


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_real_file_has_the_totals_of_a_plain_sum(path: Path) -> None:
    with path.open("rb") as stream:
        objects = pickle.load(stream)
    snapshot = load(path)
    blocks = [block for segment in objects["segments"] for block in segment["blocks"]]
    active = [block for block in blocks if block["state"] == "active_allocated"]
    (device,) = snapshot.devices
    ours = [block for segment in device.segments for block in segment.blocks]
    assert sum(segment.size for segment in device.segments) == sum(
        segment["total_size"] for segment in objects["segments"]
    )
    assert len(ours) == len(blocks)
    assert sum(block.size for block in ours) == sum(block["size"] for block in blocks)
    assert sum(block.size for block in ours if block.state == "active_allocated") == sum(
        block["size"] for block in active
    )
    assert sum(block.requested for block in ours) == sum(
        block["requested_size"] for block in active
    )
    trace = device.trace
    entries = objects["device_traces"][0]
    assert trace.size.tolist() == [entry["size"] for entry in entries]
    assert trace.address.tolist() == [entry["addr"] for entry in entries]
    assert trace.time_us.tolist() == [entry["time_us"] for entry in entries]
    assert snapshot.notes == ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_real_file_keeps_every_stack(path: Path) -> None:
    with path.open("rb") as stream:
        objects = pickle.load(stream)
    snapshot = load(path)
    stacks = [
        [(frame["filename"], frame["line"], frame["name"]) for frame in entry.get("frames", ())]
        for entry in objects["device_traces"][0]
    ]
    ours = [
        [
            (
                snapshot.frames[number].filename,
                snapshot.frames[number].line,
                snapshot.frames[number].name,
            )
            for number in snapshot.stacks[stack]
        ]
        for stack in snapshot.devices[0].trace.stack
    ]
    assert ours == stacks


def test_the_same_through_json(tmp_path: Path) -> None:
    path = next(path for path in FILES if path.stem == "training")
    with path.open("rb") as stream:
        objects = pickle.load(stream)
    other = tmp_path / "training.json"
    other.write_text(json.dumps(objects))
    assert contents(load(other)) == contents(load(path))


def _zip() -> bytes:
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return archive_bytes.getvalue()


WHOLE = pickle.dumps(raw.snapshot(), 4)

FOREIGN = {
    "an empty file": (b"", "is empty"),
    "a gzip of nothing": (gzip.compress(b""), "is a gzip of nothing"),
    "a torch.save zip": (_zip(), "torch.save"),
    "an old torch.save": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "old torch.save"),
    "a web page": (b"\n <!DOCTYPE html><html></html>", "HTML"),
    "SQLite": (b"SQLite format 3\0" + bytes(100), "SQLite"),
    "a git-lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(9), "zstd"),
    "gzip twice": (gzip.compress(gzip.compress(WHOLE)), "twice"),
    "text": (b"hello there", "begins with 'hello there': neither a pickle nor JSON"),
    "zeros": (bytes(5000), "neither a pickle nor JSON"),
    "a truncated pickle": (WHOLE[: len(WHOLE) // 2], "ends too early"),
    "a pickle without its last byte": (WHOLE[:-1], "ends too early"),
    "one byte of a pickle": (WHOLE[:1], "ends too early"),
    "a truncated gzip": (gzip.compress(WHOLE)[:-30], "ends too early"),
    "a gzip with a wrong sum": (gzip.compress(WHOLE)[:-8] + bytes(8), "CRC"),
    "a gzip with other bytes in it": (
        (lambda b: b[:40] + bytes(20) + b[60:])(gzip.compress(WHOLE)),
        "",
    ),
    "a truncated JSON": (json.dumps(raw.snapshot()).encode()[:500], "ends too early"),
    "a damaged JSON": (b'{"segments": [}' + bytes(100), "line 1, column 15"),
    "JSON in another encoding": (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    "JSON of another shape": (b'{"a": 1, "b": 2}', "has no segments (but a, b)"),
    "a JSON list of numbers": (b"[1, 2, 3]", "not one of segments"),
    "a pickle of another shape": (pickle.dumps({"model": {}}), "has no segments (but model)"),
    "a pickled number": (pickle.dumps(17), "holds an int"),
    "a pickled array": (pickle.dumps(bytearray(9), 5), "holds a bytearray"),
    "an empty dict": (pickle.dumps({}), "nothing at all"),
    "segments that are no list": (pickle.dumps({"segments": {}}), "segments is a dict"),
    "traces that are no lists": (
        pickle.dumps({"segments": [], "device_traces": [{}]}),
        "the trace of device 0 is a dict",
    ),
    "a protocol of the future": (b"\x80\x63N.", "unsupported pickle protocol: 99"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_no_snapshot_gets_one_line(what: str, tmp_path: Path) -> None:
    whole, words = FOREIGN[what]
    path = tmp_path / "file"
    path.write_bytes(whole)
    with pytest.raises(SnapshotError) as caught:
        load(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert words in line
    assert line.isprintable()


def test_a_file_that_cannot_be_opened_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="missing: does not exist"):
        load(tmp_path / "missing")
    with pytest.raises(SnapshotError, match="is a directory"):
        load(tmp_path)
    with pytest.raises(SnapshotError, match="neither a file nor a pipe"):
        load("/dev/null")
    with pytest.raises(SnapshotError, match="cannot be opened"):
        load("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_bytes(WHOLE)
    path.chmod(0)
    with pytest.raises(SnapshotError, match="may not be read by this user"):
        load(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_trace_was_read_from_can_be_kept_to_be_freed_later(path: Path) -> None:
    spent: list[object] = []
    spared, freed = load(path, spent=spent), load(path)
    assert spared == freed
    with path.open("rb") as stream:
        traces = pickle.load(stream)["device_traces"]
    pieces = [piece for piece in spent if isinstance(piece, list)]
    assert list(itertools.chain(*pieces)) == list(itertools.chain(*traces))


def test_progress_goes_from_the_first_to_the_last_byte_and_then_over_the_entries() -> None:
    path = next(path for path in FILES if path.stem == "training")
    reports: list[tuple[int, int, str]] = []
    load(path, progress=lambda *what: reports.append(what))
    reading = [entry for entry in reports if entry[2] == "reading"]
    indexing = [entry for entry in reports if entry[2] == "indexing"]
    assert reports == reading + indexing
    size = path.stat().st_size
    assert [done for done, _, _ in reading] == sorted(done for done, _, _ in reading)
    assert reading[-1] == (size, size, "reading")
    assert [done for done, _, _ in indexing] == sorted(done for done, _, _ in indexing)
    assert indexing[-1] == (23105 + 61, 23105 + 61, "indexing")


@pytest.mark.parametrize("phase", ["reading", "indexing"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, EOFError, SnapshotError])
def test_what_progress_raises_ends_the_reading(phase: str, error: type[BaseException]) -> None:
    def progress(_done: int, _whole: int, now: str) -> None:
        if now == phase:
            raise error("enough")

    with pytest.raises(error, match=r"^enough$"):
        load(FILES[0], progress=progress)
    assert gc.isenabled()


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    reports: list[int] = []
    with pytest.raises(SnapshotError, match=r"needs about .* available\); .*filters do not"):
        load(FILES[0], available=1 << 20, progress=lambda *_: reports.append(1))
    assert not reports


def test_the_estimate_in_words(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.write(b"\x80\x04")
        stream.truncate(190_000_000)
    archive_bytes = estimate(path)
    assert archive_bytes.expected is not None
    assert archive_bytes.expected == pytest.approx(1e9, rel=0.1)
    words = str(
        limits.estimate_memory(
            path.stat().st_size, path.stat().st_size, json=False, available=14 << 30
        )
    )
    assert words == "needs about 954 MiB of memory; limit 2.7 GiB (14.0 GiB available)"
    assert archive_bytes.enough is (
        archive_bytes.available is None or archive_bytes.available // 4 >= archive_bytes.expected
    )


UNPACKED = 190_000_000
"""Bytes for which some 954 MiB are expected and 2.7 GiB are plausible."""


@pytest.mark.parametrize(
    ("available", "memory", "allowed", "words"),
    [
        (8 * GIB, None, 2 * GIB, "; limit 2.0 GiB (a quarter of 8.0 GiB available)"),
        (3 * GIB, None, 3 * GIB // 4, "; limit 768 MiB (a quarter of 3.0 GiB available)"),
        (8 * GIB, 5 * GIB, 5 * GIB, "; limit 5.0 GiB (8.0 GiB available)"),
        (8 * GIB, 20 * GIB, 8 * GIB, "; limit 8.0 GiB (8.0 GiB available)"),
        (8 * GIB, 100 << 20, 100 << 20, "; limit 100 MiB (8.0 GiB available)"),
        (None, 5 * GIB, 5 * GIB, "; limit 5.0 GiB (available: unknown)"),
    ],
)
def test_the_limit_is_a_quarter_of_the_available_memory_or_as_requested(
    available: int | None, memory: int | None, allowed: int, words: str
) -> None:
    archive_bytes = limits.estimate_memory(
        0, UNPACKED, json=False, available=available, memory=memory
    )
    assert archive_bytes.allowed == allowed
    assert words in str(archive_bytes)
    assert archive_bytes.expected is not None
    assert archive_bytes.enough is (archive_bytes.expected <= allowed)


@pytest.mark.parametrize(
    ("available", "memory", "remedy"),
    [
        (3 * GIB, None, "--memory SIZE allows more"),
        (3 * GIB, 100 << 20, "--memory SIZE allows more"),
        (GIB // 2, None, "read it on a machine with more memory"),
        (GIB // 2, GIB, "read it on a machine with more memory"),
    ],
)
def test_a_file_that_needs_too_much_memory_is_refused_before_it_is_read(
    available: int, memory: int | None, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.write(b"\x80\x04")
        stream.truncate(UNPACKED)
    reports: list[int] = []
    with pytest.raises(SnapshotError, match="needs about 954 MiB") as error:
        load(path, available=available, memory=memory, progress=lambda *_: reports.append(1))
    assert remedy in str(error.value)
    assert not reports


def test_a_pipe_may_take_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available", lambda: 8 * GIB)
    assert estimate("-").allowed == 2 * GIB
    assert estimate("-", 3 * GIB).allowed == 3 * GIB


def test_a_pipe_cannot_be_estimated(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert estimate(path).expected is None
    assert "an unknown amount of memory (a pipe)" in str(estimate("-"))


def test_available_is_what_the_kernel_and_the_container_leave(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 99 kB\nMemAvailable:   1048576 kB\n")
    none = tmp_path / "none"
    assert limits.available(meminfo, Cgroup(none, none)) == (1 << 30) - (64 << 20)
    (tmp_path / "memory.max").write_text(str(512 << 20))
    (tmp_path / "memory.current").write_text(str(112 << 20))
    (tmp_path / "self").write_text("0::/\n")
    cgroup = Cgroup(tmp_path, tmp_path / "self")
    assert limits.available(meminfo, cgroup) == (400 - 64) << 20
    assert limits.available(none, Cgroup(none, none)) is None


def test_torch_is_not_imported() -> None:
    code = "import sys, tui.snapshots.read.load; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "numpy", "textual", "psutil"}


def test_the_registry_of_extension_codes_is_left_as_it_was() -> None:
    copyreg.add_extension("collections", "Counter", 0x7001)
    try:
        load(FILES[0])
        assert pickle.loads(b"\x80\x02\x83\x01\x70.").__name__ == "Counter"
        load(FILES[0])
        assert pickle.loads(b"\x80\x02\x83\x01\x70.").__name__ == "Counter"
    finally:
        copyreg.remove_extension("collections", "Counter", 0x7001)
