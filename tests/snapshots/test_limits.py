"""What takes more than a snapshot of its size can is refused early; so are sizes nothing has."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import run_here
from tests.snapshots import raw
from tests.snapshots.apart import assert_safe, read_alone
from tests.snapshots.clones import clone
from tests.tiers import with_variants
from tui.kit.command_line.output import UsageError
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.snapshots.model.snapshot import SnapshotError
from tui.snapshots.options import parse_memory
from tui.snapshots.read import limits
from tui.snapshots.read.load import load
from tui.snapshots.read.normalise import normalise

TRAINING = Path(__file__).with_name("files") / "training.pickle"
MIB = 1 << 20
ROOM = 8 << 30
"""Bytes that the child may take: far more than it is to take."""
EARLY = 256 * MIB
SECONDS = 60.0
Raw = dict[str, Any]
LARGEST = (1 << 63) - 1
HUGE = 10**47


def pickled(*parts: bytes) -> bytes:
    return b"\x80\x04](" + b"".join(parts) + b"e."


TRIED_FIRST = ("empty dicts", "a tuple in a tuple", "pairs of nothing", "JSON lists")
EARLY_BY_COUNT: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty dicts": (lambda: pickled(b"}" * 20_000_000), "objects"),
    "empty sets": (lambda: pickled(b"\x8f" * 8_000_000), "objects"),
    "empty lists in a gzip": (lambda: gzip.compress(pickled(b"]" * 20_000_000), 1), "objects"),
    "a list in a list in a list": (
        lambda: b"\x80\x04" + b"]" * 20_000_000 + b"a" * 19_999_999 + b".",
        "objects",
    ),
    "a tuple in a tuple": (lambda: b"\x80\x04)" + b"\x85" * 20_000_000 + b".", "objects"),
    "pairs of nothing": (lambda: pickled(b"NN\x86" * 8_000_000), "first"),
    "objects after a sound beginning": (
        lambda: pickled(pickle.dumps("x" * 4 * MIB, 4)[2:-1], b"}" * 20_000_000),
        "first",
    ),
    "sets, each behind a blank string": (
        lambda: pickled(b"\x8f\x8c\x04abcd0" * 6_000_000),
        "of memory",
    ),
    "JSON lists": (lambda: b"[" + b"[]," * 10_000_000 + b"[]]", "lists and objects"),
    "JSON objects": (lambda: b"[" + b"{}," * 10_000_000 + b"{}]", "lists and objects"),
    "JSON lists in JSON lists": (lambda: b"[" * 5_000_000 + b"]" * 5_000_000, "lists and objects"),
}


@pytest.mark.parametrize(
    "what", with_variants(TRIED_FIRST, [what for what in EARLY_BY_COUNT if what not in TRIED_FIRST])
)
def test_it_is_refused_by_count_before_it_takes_the_memory(what: str) -> None:
    make, words = EARLY_BY_COUNT[what]
    outcome = read_alone(make(), ROOM, SECONDS)
    assert_safe(outcome)
    assert words in outcome.line
    assert "damaged or hostile" in outcome.line
    assert outcome.grown <= EARLY


def again(entries: int = 1, frames: int = 1, annotations: int = 1) -> Raw:
    """One entry, one frame or one annotation that the file names again and again."""
    objects: Raw = raw.snapshot()
    entry = objects["device_traces"][0][0]
    entry["frames"] = [raw.OUTER] * frames
    objects["device_traces"] = [[entry] * entries]
    objects["external_annotations"] *= annotations
    return objects


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        pytest.param(lambda: again(entries=500_000), "claims 500 0", id="an entry"),
        pytest.param(lambda: again(annotations=500_000), "claims 500 0", id="an annotation"),
        pytest.param(lambda: again(frames=500_000), "a stack of 500 000 frames", id="a frame"),
    ],
)
def test_what_a_file_names_again_and_again_is_counted(
    objects: Callable[[], Raw], words: str
) -> None:
    with pytest.raises(SnapshotError, match="damaged") as error:
        load(io.BytesIO(pickle.dumps(objects(), 4)))
    assert words in str(error.value)


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("as_json", with_variants([False], [True]))
def test_what_torch_writes_is_far_from_these_limits(
    stacks: bool, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = clone(pickle.loads(TRAINING.read_bytes()), 40_000, 0)
    trace = objects["device_traces"][0]
    for entry in () if stacks else trace:
        del entry["frames"]
    count = len(trace)
    content = json.dumps(objects).encode() if as_json else pickle.dumps(objects, 4)
    monkeypatch.setattr(limits, "_EVERY", 1)
    monkeypatch.setattr(limits, "_OBJECTS_BASE", 50_000)
    monkeypatch.setattr(limits, "_OBJECTS_PER_BYTE", 0.2)
    assert len(load(io.BytesIO(content)).devices[0].trace) == count


# ---- sizes that nothing has ---------------------------------------------------------------------


def entry(place: int = 3, **changed: Any) -> Raw:
    objects = raw.snapshot()
    objects["device_traces"][0][place].update(changed)
    return objects


def segment(**changed: Any) -> Raw:
    objects = raw.snapshot()
    objects["segments"][0].update(changed)
    return objects


def block(**changed: Any) -> Raw:
    objects = raw.snapshot()
    objects["segments"][0]["blocks"][0].update(changed)
    return objects


def oom(size: int, free: int) -> Raw:
    objects = raw.snapshot()
    objects["device_traces"][0].append(raw.oom(size, free, 9))
    return objects


SIZES: dict[str, Callable[[int], Raw]] = {
    "of an entry": lambda size: entry(size=size),
    "of an OOM": lambda size: oom(size, 5),
    "free on the device": lambda size: oom(5, size),
    "of a segment": lambda size: segment(total_size=size),
    "that a segment states": lambda size: segment(allocated_size=size),
    "of a block": lambda size: block(size=size),
    "asked for": lambda size: block(requested_size=size),
}


@pytest.mark.parametrize("bits", [60, 63, 157, 99_999])
@pytest.mark.parametrize("what", SIZES)
def test_a_size_that_torch_serves_to_nobody_is_refused(what: str, bits: int) -> None:
    size = (1 << bits) - (bits == 63)
    with pytest.raises(SnapshotError, match="torch serves less than 1 EiB") as error:
        load(io.BytesIO(pickle.dumps(SIZES[what](size), 4)))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 200


def test_a_negative_size_of_eight_exbibytes_is_refused_too() -> None:
    with pytest.raises(SnapshotError, match="trace entry 3 has a size of -9223372036854775807"):
        normalise(entry(size=-LARGEST))


@pytest.mark.parametrize("what", ["of an entry", "of an OOM", "of a block", "asked for"])
def test_the_largest_size_that_torch_serves_is_shown(what: str) -> None:
    for device in Analysis(normalise(SIZES[what]((1 << 60) - 1))).devices.values():
        device.summary()
        for event in device.replay.ooms:
            assert "Could not allocate 1.0 EiB" in judge(device, event).headline


def test_sizes_that_together_are_too_many_bytes_are_refused() -> None:
    objects = raw.snapshot()
    objects["device_traces"] = [[raw.entry("alloc", 1, (1 << 60) - 1, n) for n in range(20)]]
    with pytest.raises(SnapshotError, match="device 0: its sizes add up to 8 EiB"):
        Analysis(normalise(objects)).devices[0].summary()
    blocks = [raw.block(n << 60, (1 << 60) - 1) for n in range(9)]
    objects = {"segments": [raw.segment(0, 0, *blocks)], "device_traces": []}
    objects["segments"][0].update(total_size=5, allocated_size=5, active_size=5, requested_size=5)
    with pytest.raises(SnapshotError, match="device 0: its sizes add up to 8 EiB"):
        Analysis(normalise(objects)).devices[0].summary()


@pytest.mark.parametrize(
    "objects",
    [
        entry(pool_id=(HUGE, 10**5000)),
        segment(segment_pool_id=(HUGE, 10**5000)),
        {**raw.snapshot(), "external_annotations": [{"name": "a", "time_us": 10**5000}]},
        {**raw.snapshot(), "external_annotations": [{"time_us": 1, "device": 10**5000}]},
        entry(time_us=HUGE),
        entry(addr=10**5000),
        entry(frames=[{"filename": "a.py", "line": 10**5000, "name": "f"}]),
        {**raw.snapshot(), "allocator_settings": {"a": 10**5000, 10**5000: "b"}},
    ],
)
def test_other_integers_of_any_length_are_counted_as_odd_or_shown(objects: Raw) -> None:
    analysis = Analysis(load(io.BytesIO(pickle.dumps(objects, 4))))
    for device in analysis.devices.values():
        device.summary()


@pytest.mark.parametrize("digits", [13, 40, 400, 5000])
def test_a_message_with_endless_figures_is_read_as_one_without(digits: int) -> None:
    nines = "9" * digits
    (message,) = parse_oom_texts(
        f"Tried to allocate 2.00 GiB. GPU {nines} has a total capacity of {nines}.00 GiB of which"
        f" 1.{nines} GiB is free. Process {nines} has {nines} GiB memory in use."
    )
    assert (message.requested, message.device, message.total, message.others) == (
        2 << 30,
        None,
        None,
        (),
    )


# ---- the option ---------------------------------------------------------------------------------


def test_the_command_refuses_before_it_reads_and_reads_with_more(tmp_path: Path) -> None:
    path = tmp_path / "memory.pickle"
    whole = pickle.dumps(raw.snapshot(), 4)
    with path.open("wb") as stream:
        stream.write(whole)
        stream.truncate(40 << 20)  # what follows the pickle is not read
    refused = run_here("snapshot", str(path), "--memory", "64MiB")
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert "needs about 248 MiB of memory; limit 64.0 MiB" in refused.err
    assert "--memory SIZE allows more" in refused.err
    allowed = run_here("snapshot", str(path), "--memory", "512MiB")
    assert allowed.code == 0, allowed.err
    assert "device 0: No OOM event" in allowed.out


@pytest.mark.parametrize("objects", [entry(size=LARGEST), block(requested_size=LARGEST)])
def test_the_command_says_one_line_of_a_size_that_nothing_has(objects: Raw, tmp_path: Path) -> None:
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps(objects, 4))
    refused = run_here("snapshot", str(path))
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert "torch serves less than 1 EiB: damaged" in refused.err


def test_values_of_the_memory_option() -> None:
    assert parse_memory("") is None
    assert parse_memory("8GiB") == 8 << 30
    for text in ("8 apples", "1MiB", "9" * 400, "-1"):
        with pytest.raises(UsageError, match="--memory"):
            parse_memory(text)
