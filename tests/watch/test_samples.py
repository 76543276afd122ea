"""What is kept of a run: one writer, whole lines, read whatever lies in the file."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import VARIANT
from tests.watch.test_findings import figures
from tui.allocators.messages import (
    DevicesPlaced,
    Placed,
    ProcessFigures,
    Seen,
    StepsCounted,
    TorchProcesses,
)
from tui.watch.runs import samples
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.samples import OmittedSamples, SamplesFile
from workloads.protocol import wire

BEGAN = 1e9
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path: Path) -> StartedRun:
    return StartedRun(tmp_path, ("python", "train.py"), "/", BEGAN)


def steps(at: float, count: int = 0) -> StepsCounted:
    return StepsCounted(BEGAN + at, {"box-7-100": count})


def held(at: float) -> ProcessFigures:
    return ProcessFigures(BEGAN + at, (figures(BEGAN + at),))


def seen_in(run: StartedRun) -> tuple[list[Seen], OmittedSamples]:
    found: list[Seen] = []
    return found, samples.read(run, found.append)


def test_what_is_kept_is_read(run: StartedRun) -> None:
    file = SamplesFile(run, starter=True)
    events: list[Seen] = [
        TorchProcesses(BEGAN, ()),
        held(1),
        steps(1, 3),
        ProcessFigures(BEGAN + 1.5, (), host_rss={"7": 300 << 20}),
        DevicesPlaced(BEGAN + 1, {"7 cuda:0": Placed("GPU-1", None, "", "no right", 8 << 30)}),
    ]
    for event in events:
        file.store(event)
    file.store(ProcessFigures(BEGAN + 2, ()))  # says nothing
    assert seen_in(run) == (events, OmittedSamples(0, 0))
    assert run.samples.stat().st_mode & 0o777 == 0o600
    file.close()


@VARIANT
def test_samples_are_sparser_with_time_and_the_last_is_kept(run: StartedRun) -> None:
    file = SamplesFile(run, starter=True)
    for tenth in range(864_000 // 20):
        file.store(held(tenth * 2.0))
    count = len(seen_in(run)[0])
    file.close()
    found, _ = seen_in(run)
    assert len(found) == count + 1
    assert found[-1].at == BEGAN + 86_398
    # All of the first 4 000 s, then at most 2 000 while the time grows by e.
    assert 6000 < len(found) < 2000 + 2000 * 3.2
    gaps = [after.at - before.at for before, after in itertools.pairwise(found)]
    assert max(gaps) <= 86_400 / samples.SPARSER + 2


def test_one_of_several_writes_and_another_takes_over(run: StartedRun) -> None:
    first, second = SamplesFile(run, starter=True), SamplesFile(run, starter=False)
    first.store(steps(1))
    second.store(TorchProcesses(BEGAN + 1, ()))
    second.store(steps(2, 1))
    assert seen_in(run)[0] == [steps(1)]
    first.close()
    second.store(steps(3, 2))
    first.store(steps(4, 3))
    # What it was told while it could not write comes first.
    assert seen_in(run)[0] == [steps(1), TorchProcesses(BEGAN + 1, ()), steps(3, 2)]
    second.close()


def test_a_writer_that_is_killed_leaves_its_place_and_perhaps_half_a_line(run: StartedRun) -> None:
    code = (
        "import sys, time\n"
        "from tests.watch.test_samples import *\n"
        "file = SamplesFile(StartedRun(Path(sys.argv[1]), (), '', BEGAN), starter=True)\n"
        'file.store(steps(1)); os.write(file._file, b\'{"type": "st\')\n'
        "print('written', flush=True); time.sleep(1000)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(run.folder)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    other = SamplesFile(run, starter=False)
    other.store(steps(2))
    assert seen_in(run) == ([steps(1)], OmittedSamples(0, 0))
    writer.kill()
    writer.wait()
    writer.stdout.close()
    other.store(steps(3))
    assert seen_in(run) == ([steps(1), steps(3)], OmittedSamples(1, 0))
    other.close()


def test_where_files_cannot_be_locked_the_starter_writes(
    run: StartedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    for starter in (False, True):
        file = SamplesFile(run, starter=starter)
        file.store(steps(1))
        assert bool(run.samples.stat().st_size) is starter
        assert not file.problem
        file.close()


def test_a_folder_that_is_gone_or_a_full_disk_is_a_line_and_no_error(
    run: StartedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = SamplesFile(StartedRun(run.folder / "gone", (), "", BEGAN), starter=True)
    lost.store(steps(1))
    assert lost.problem == "its samples are not stored: No such file or directory"
    file = SamplesFile(run, starter=True)
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:9]))
    file.store(steps(1))
    assert file.problem == "its samples are not stored: No space left on device"
    monkeypatch.undo()
    file.store(steps(2))
    assert not file.problem
    assert seen_in(run) == ([steps(2)], OmittedSamples(1, 0))
    file.close()


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b"{}", b"[1]", b'{"type":"steps_told"}']))
)
def test_junk_costs_its_lines_alone(
    tmp_path_factory: pytest.TempPathFactory, junk: list[bytes]
) -> None:
    run = StartedRun(tmp_path_factory.mktemp("run"), (), "", BEGAN)
    whole = wire.encode(steps(1))
    lines = [line.replace(b"\n", b" ") for line in junk]
    run.samples.write_bytes(b"".join(b"%s\n%s" % (line, whole) for line in lines))
    found, done = seen_in(run)
    assert found == [steps(1)] * len(lines)
    assert done.unreadable == sum(line != b"" for line in lines)


def test_of_a_long_file_the_end_is_read(run: StartedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SamplesFile(run, starter=True)
    for number in range(100):
        file.store(steps(number, number))
    file.close()
    size = run.samples.stat().st_size
    monkeypatch.setattr(samples, "MOST_SAMPLE_BYTES", size // 2)
    found, done = seen_in(run)
    assert 40 < len(found) < 52
    assert found[-1] == steps(99, 99)
    assert (done.unreadable, done.left_out > size // 2) == (0, True)


def test_a_file_of_an_earlier_version_has_figures_alone(run: StartedRun) -> None:
    line = json.loads(wire.encode(held(1)))
    run.samples.write_text(json.dumps(line) + "\n" + json.dumps(line)[:40])
    assert seen_in(run) == ([held(1)], OmittedSamples(0, 0))
    run.samples.unlink()
    assert seen_in(run) == ([], OmittedSamples(0, 0))


def test_reading_stops_where_it_is_not_wanted_any_more(run: StartedRun) -> None:
    file = SamplesFile(run, starter=True)
    for second in range(9):
        file.store(steps(second, second))
    file.close()
    taken: list[Seen] = []
    samples.read(run, taken.append, lambda: len(taken) < 2)
    assert len(taken) == 2
