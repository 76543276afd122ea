"""What a second core turned of a file while it was read is what would have been turned later."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.snapshots import raw
from tests.snapshots.apart import Outcome, read
from tests.snapshots.generator import Options, Raw, generate
from tests.snapshots.helpers import OPTIONS, SEEDS
from tests.snapshots.mutate import mutants, seeds
from tui.snapshots import ahead, columns, source
from tui.snapshots.ahead import Ahead, Turned
from tui.snapshots.filters import Keep
from tui.snapshots.load import load
from tui.snapshots.model import Snapshot, SnapshotError

SLOW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MANY = 9000
Turnings = list["Turned | None"]


@pytest.fixture
def turnings(monkeypatch: pytest.MonkeyPatch) -> Turnings:
    """What was turned of each file that is loaded; every file is large enough for it."""
    taken: Turnings = []
    original = Ahead.turned

    def turned(self: Ahead, traces: list[list[Any]]) -> Turned | None:
        taken.append(original(self, traces))
        return taken[-1]

    monkeypatch.setattr(Ahead, "turned", turned)
    monkeypatch.setattr(ahead, "FROM_BYTES", 1)
    monkeypatch.setattr(ahead, "LEAST", 1)
    monkeypatch.setattr(ahead, "LOOKS", (1 / 8, 1 / 4, 1 / 2))
    monkeypatch.setattr(source, "PIECE", 256)
    # Neither the batches nor the runs of stacks end where what was turned ends.
    monkeypatch.setattr(columns, "BATCH", 7)
    return taken


def contents(snapshot: Snapshot) -> tuple[Any, ...]:
    """All that a file says, whatever numbers stacks, streams, pools and contexts were given."""

    def stack(number: int) -> tuple[Any, ...]:
        return tuple(snapshot.frames[frame] for frame in snapshot.stacks[number])

    devices = [
        (
            each.index,
            [
                (
                    [(segment.address, segment.size, segment.pool, stack(segment.stack))],
                    [(block.address, block.state, stack(block.stack)) for block in segment.blocks],
                )
                for segment in each.segments
            ],
            bytes(each.trace.action),
            [column.tolist() for column in (each.trace.address, each.trace.size)],
            each.trace.time_us.tolist(),
            [snapshot.streams[number] for number in each.trace.stream],
            [snapshot.pools[number] if number >= 0 else None for number in each.trace.pool],
            [snapshot.contexts[number] for number in each.trace.context],
            [stack(number) for number in each.trace.stack],
            each.trace.device_free,
            each.trace.unknown,
        )
        for each in snapshot.devices
    ]
    return devices, snapshot.notes, snapshot.annotations, snapshot.settings


def without(path: Path) -> Snapshot:
    """The file without a second core."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ahead, "FROM_BYTES", 1 << 60)
        return load(path)


class _FewAtOnce(pickle._Pickler):
    """Adds few entries at once to a list, where others would not be done with a small file."""

    _BATCHSIZE = 3


def written(objects: Raw, folder: Path, protocol: int = 4) -> Path:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(objects, protocol))
    return path


def many() -> Raw:
    """A file whose trace is most of it."""
    made = raw.snapshot()
    whole = [
        {**raw.entry("alloc", raw.BASE, 512 * (i + 1), i), "frames": [dict(raw.OUTER, line=i % 9)]}
        for i in range(MANY)
    ]
    made["device_traces"] = [whole]
    return made


def no_children() -> bool:
    return psutil.Process().children() == []


@pytest.mark.usefixtures("turnings")
@SLOW
@given(seed=SEEDS, options=OPTIONS, protocol=st.integers(1, 3))
def test_any_file(seed: int, options: Options, protocol: int, tmp_path: Path) -> None:
    objects, _ = generate(seed, options)
    path = tmp_path / "snapshot.pickle"
    with path.open("wb") as stream:
        _FewAtOnce(stream, protocol).dump(objects)
    assert contents(load(path)) == contents(without(path))
    assert no_children()


@pytest.mark.parametrize("protocol", range(6))
def test_the_trace_is_gone_on_with_where_the_other_core_ended(
    protocol: int, tmp_path: Path, turnings: Turnings
) -> None:
    path = written(many(), tmp_path, protocol)
    found = load(path)
    (turned,) = turnings
    assert turned is not None
    (trace,) = turned.traces.values()
    # The columns go on in place.
    assert trace is found.devices[0].trace
    assert len(trace) == MANY
    assert contents(found) == contents(without(path))


@pytest.mark.usefixtures("turnings")
def test_some_entries_were_turned_and_not_all(tmp_path: Path) -> None:
    seen: list[int] = []
    original = columns.fill

    def fill(trace: list[Any], *arguments: Any, **named: Any) -> Any:
        begun = named.get("begun")
        seen.append(0 if begun is None else len(begun))
        return original(trace, *arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(columns, "fill", fill)
        load(written(many(), tmp_path))
    (begun,) = seen
    assert 0 < begun < MANY


def test_what_is_given_up_is_all_that_was_read(tmp_path: Path, turnings: Turnings) -> None:
    spent: list[Any] = []
    load(written(many(), tmp_path), spent=spent)
    addresses = [entry["size"] for batch in spent for entry in batch]
    assert addresses == [512 * (i + 1) for i in range(MANY)]
    assert turnings[0] is not None


@pytest.mark.usefixtures("turnings")
def test_progress_counts_every_entry_once(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    load(
        written(many(), tmp_path),
        progress=lambda done, whole, phase: (
            told.append((done, whole)) if phase != "reading" else None
        ),
    )
    assert told[-1] == (MANY + 1, MANY + 1)
    assert told == sorted(told)


@pytest.mark.parametrize("spoilt", [{"size": "large"}, {"frames": 5}, {"pool_id": "none"}])
def test_of_an_odd_file_nothing_is_taken_over(
    spoilt: Raw, tmp_path: Path, turnings: Turnings
) -> None:
    objects = many()
    objects["device_traces"][0][3] |= spoilt
    path = written(objects, tmp_path)
    assert contents(load(path)) == contents(without(path))
    assert turnings[0] is None


def test_entries_that_stand_elsewhere_are_not_taken_for_a_trace(
    tmp_path: Path, turnings: Turnings
) -> None:
    objects = {"host_traces": many()["device_traces"][0], **many()}
    path = written(objects, tmp_path)
    assert contents(load(path)) == contents(without(path))
    assert turnings[0] is None


@pytest.mark.usefixtures("turnings")
def test_one_list_for_two_devices(tmp_path: Path) -> None:
    objects = many()
    objects["device_traces"] *= 2
    path = written(objects, tmp_path)
    found = load(path)
    assert contents(found) == contents(without(path))
    assert [len(device.trace) for device in found.devices] == [MANY, MANY]


def test_where_the_other_process_dies_this_one_does_it_all(
    tmp_path: Path, turnings: Turnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(many(), tmp_path)
    expected = contents(without(path))
    home, original = os.getpid(), columns.fill

    def fill(*arguments: Any, **named: Any) -> Any:
        if os.getpid() != home:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    monkeypatch.setattr(columns, "fill", fill)
    assert contents(load(path)) == expected
    assert turnings[0] is None
    assert no_children()


def _cut(whole: bytes) -> bytes:
    return whole[: len(whole) * 3 // 4]


def _without_segments(whole: bytes) -> bytes:
    return whole.replace(b"segments", b"segmentz", 1)


@pytest.mark.usefixtures("turnings")
@pytest.mark.parametrize("spoil", [_cut, _without_segments])
def test_a_file_that_fails_behind_its_middle_leaves_no_process(
    spoil: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = written(many(), tmp_path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(SnapshotError):
        load(path)
    assert no_children()


@pytest.mark.usefixtures("turnings")
def test_giving_up_leaves_no_process(tmp_path: Path) -> None:
    path = written(many(), tmp_path)
    size = path.stat().st_size

    def give_up(done: int, _whole: int, _phase: str) -> None:
        if done > size * 2 // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(path, progress=give_up)
    assert no_children()


@pytest.mark.parametrize("keep", [Keep(first=5), Keep(minimal_size=4096), Keep(device=0)])
def test_a_filter_is_heeded(keep: Keep, tmp_path: Path, turnings: Turnings) -> None:
    path = written(many(), tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ahead, "FROM_BYTES", 1 << 60)
        expected = contents(load(path, keep=keep))
    assert contents(load(path, keep=keep)) == expected
    assert turnings[-1] is None


@pytest.mark.usefixtures("turnings")
def test_damaged_files_end_as_they_do_without_a_second_core() -> None:
    files = list(mutants(seeds(Path(__file__).parent / "files"), 400, 5))

    def outcomes() -> list[tuple[str, int, str]]:
        found: list[Outcome] = []
        while len(found) < len(files):
            found += read(files[len(found) :], allowed=600 << 20, timeout=60)
        return [(each.line, each.died, each.crash) for each in found]

    ended = outcomes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ahead, "FROM_BYTES", 1 << 60)
        assert ended == outcomes()
    assert no_children()
