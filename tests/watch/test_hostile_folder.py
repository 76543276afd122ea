"""A run's folder in which anybody may have written anything: the rest is shown, and what is not."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiers import with_variants
from tests.watch.following import until
from tui.allocators.messages import Seen
from tui.core.text.numbers import count
from tui.devices.state.watched_processes import MOST_SEEN
from tui.kit.lines import Line
from tui.watch.cli.launch import RunOutcome, build_report, format_text
from tui.watch.runs import runs, samples
from tui.watch.runs.process_logs import MOST_LOG_BYTES, process_logs_in, read_folder, troubles_in
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.untrusted import LONGEST_LINE
from tui.watch.session.run_folder import StoredRuns
from tui.watch.session.stored_ooms import explain_stored
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.processes import RunProcesses
from tui.watch.state.run import WatchedDevice, WatchedRun
from tui.watch.views.memory_plot import host_plot, plot_of, plots_host_memory
from tui.watch.views.processes import device_line, missing_lines
from tui.watch.views.run import banner_lines, snapshots_of, trend_lines
from tui.watch.views.stored_runs import stored_run_lines, stored_run_summary

ROOT = Path(__file__).parents[2]
BEGAN = 1.7e9
NAME = "box-7-100"
BEGIN = {
    "event": "begin",
    "at": BEGAN,
    "identity": NAME,
    "pid": 7,
    "host": "box",
    "rank": "0",
    "torch": "2.13.0",
    "python": "3.11",
}
OOM = {
    "event": "oom",
    "at": BEGAN + 5,
    "oom": 1,
    "happened": BEGAN + 5,
    "step": 3,
    "device": 0,
    "asked": 1 << 30,
    "free": 5,
    "limit": 8 << 30,
    "allocated": 7 << 30,
    "reserved": 7 << 30,
    "thread": "main",
    "where": "train.py:3",
}
SNAPSHOT = {"event": "snapshot", "at": BEGAN + 6, "oom": 1, "name": "oom.pickle", "seconds": 0.1}
END = {
    "event": "end",
    "at": BEGAN + 7,
    "steps": 3,
    "ooms": 1,
    "text": "no",
    "type": "ValueError",
    "out_of_memory": False,
}
STEPS = {"type": "steps_told", "at": BEGAN + 1, "steps": {NAME: 2}}
DEVICE: dict[str, Any] = {
    "device": "cuda:0",
    "pid": 7,
    "at": BEGAN + 1,
    **dict.fromkeys(("requested", "allocated", "active", "reserved"), 1 << 30),
    **dict.fromkeys(("inactive_split", "alloc_retries", "ooms"), 0),
    **dict.fromkeys(("allocated_peak", "reserved_peak"), 1 << 30),
}
FIGURES = {
    "type": "process_figures",
    "at": BEGAN + 1,
    "devices": [DEVICE],
    "host_rss": {"7": 1 << 30, "8": 1 << 20},
}
RUN = {
    "schema": 1,
    "command": ["python", "train.py"],
    "cwd": "/",
    "began": BEGAN,
    "pid": 7,
    "start_ticks": 100,
    "ended": BEGAN + 9,
    "code": 7,
    "signal": None,
    "host": "",
}
DEEP = b"[" * 99_999


def encoded(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder of a stored run."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    return filled(tmp_path / "runs" / "20260101-120000-7")


def filled(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "run.json").write_bytes(encoded(RUN))
    (place / f"{NAME}.jsonl").write_bytes(encoded(BEGIN, OOM, END))
    (place / "samples.jsonl").write_bytes(encoded(STEPS, FIGURES))
    return place


def draw_plots(row: WatchedDevice) -> list[Line]:
    plots = [*plot_of(row, "time", 100, 20), *plot_of(row, "steps", 100, 20)]
    return [*plots, *(host_plot(row, 100, 20) if plots_host_memory(row) else [])]


def shown(place: Path) -> tuple[WatchedRun | None, list[str]]:
    """All that tab 5, its page and the report without a screen say of a run."""
    listed = StoredRuns(runs.stored_runs).read()
    lines = stored_run_lines(listed, 120, time.time())
    for each in listed:
        lines += stored_run_summary(each, explain_stored(each), 120, 40, time.time())
    state = None
    for kept in listed:
        if kept.run.folder == place:
            state = replayed(kept.run)
    said = ["".join(span.text for span in line) for line in lines]
    if state is not None:
        for row in state.devices:
            drawn = [device_line(row, 120), *missing_lines(row, 120), *trend_lines(row, 120)]
            drawn += draw_plots(row)
            said += ["".join(span.text for span in line) for line in drawn]
            said += [str(taken.path) for taken in snapshots_of(row)]
        banner = banner_lines(state, None, 4000)
        said += ["".join(span.text for span in line) for line in banner]
    return state, said


def replayed(run: StartedRun) -> WatchedRun:
    async def work() -> WatchedRun:
        session = WatchedRunSession()
        session.open(run)
        followed = session._followed
        assert followed is not None
        # The folder is read after the samples are.
        state = await until(session, lambda state: followed._reading is not None and state)
        await session.stop()
        assert isinstance(state, WatchedRun)
        return state

    return asyncio.run(work())


# ---- lines ----


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (DEEP, "nested too deeply"),
        (b'{"event": "oom", "oom": ' + DEEP, "nested too deeply"),
        (encoded({**OOM, "oom": 2, "happened": "noon"}), "oom.happened: expected float"),
        (encoded({**OOM, "oom": 2, "happened": 1e300}), "out of range"),
        (encoded({**OOM, "oom": 2, "happened": -5.0}), "no time between"),
        (b'{"event": "oom", "oom": NaN}', "NaN is no number"),
        (b'{"event": "oom", "oom": 1e999}', "out of range"),
        (b'{"event": "oom", "oom": ' + b"9" * 4000 + b"}", "out of range"),
        (encoded({**OOM, "asked": -1}), "out of range"),
        (encoded({**OOM, "asked": [1]}), "oom.asked: expected int"),
        (encoded({**END, "steps": "x", "ooms": None}), "end.steps: expected int"),
        (encoded({"event": "snapshot", "oom": [], "name": "x", "at": 1}), "snapshot.oom"),
        (encoded({"event": ["oom"]}), "no event"),
        (encoded({**SNAPSHOT, "name": "../../../etc/passwd"}), "a name that is none"),
        (encoded({**SNAPSHOT, "name": "x\0y"}), "a name that is none"),
        (encoded({**BEGIN, "identity": "box-8-100"}), "of another process"),
        (b"\xff\xfe{}", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"event": "trouble", "x": "' + b"y" * LONGEST_LINE + b'"}', "longer than 1024 KiB"),
        (encoded({"event": "trouble", "doing": "x", "text": "y" * 70_000}), "longer than 65536"),
    ],
)
def test_a_line_that_does_not_fit_is_skipped_and_named_and_the_rest_is_shown(
    line: bytes, why: str, place: Path
) -> None:
    path = place / f"{NAME}.jsonl"
    path.write_bytes(encoded(BEGIN) + line.rstrip(b"\n") + b"\n" + encoded(OOM, END))
    contents = read_folder(place)
    (left,) = contents.logs
    assert (left.steps, [oom.request for oom in left.ooms]) == (3, [1 << 30])
    (said,) = contents.skipped
    assert said.startswith(f"{NAME}.jsonl, line 2 is skipped: ")
    assert why in said
    state, lines = shown(place)
    assert state is not None
    assert said in state.notes
    assert any("ValueError" in each for each in lines)


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        encoded({**STEPS, "at": 1e300}),
        encoded({**STEPS, "steps": {NAME: -3}}),
        encoded({**STEPS, "at": "noon"}),
        encoded({"type": "process_figures", "at": BEGAN, "devices": DEEP.decode()}),
        encoded({**FIGURES, "devices": [{**DEVICE, "device": "\x1b[2J"}]}),
        encoded({**FIGURES, "devices": [{**DEVICE, "allocated": 1 << 80}]}),
        encoded({**FIGURES, "host_rss": {"7": -1}}),
        encoded({**FIGURES, "host_rss": {"7": 1 << 80}}),
        b'{"type": "' + b"y" * LONGEST_LINE + b'"}',
    ],
)
def test_a_sample_that_does_not_fit_is_skipped_and_counted(line: bytes, place: Path) -> None:
    own = encoded(STEPS) + line.rstrip(b"\n") + b"\n" + encoded(FIGURES)
    (place / "samples.jsonl").write_bytes(own)
    state, _ = shown(place)
    assert state is not None
    assert "1 line of samples.jsonl cannot be read and are left out" in state.notes
    assert [len(row.points) for row in state.devices] == [1]


def test_the_first_lines_that_are_skipped_have_a_reason_each_and_the_rest_is_counted(
    place: Path,
) -> None:
    (place / f"{NAME}.jsonl").write_bytes(encoded(BEGIN) + 500 * b"{}\n" + encoded(END))
    contents = read_folder(place)
    assert len(contents.skipped) == 4
    assert contents.skipped[-1] == f"{NAME}.jsonl: 497 more lines skipped"
    assert contents.logs[0].ended


def test_what_there_is_too_much_of_is_bounded_and_reported(place: Path) -> None:
    many = [{**OOM, "oom": number} for number in range(1, 5004)]
    snapshots = [{**SNAPSHOT, "oom": None, "name": "run.json", "step": 1}] * 2000
    (place / f"{NAME}.jsonl").write_bytes(encoded(BEGIN, *many, *snapshots))
    contents = read_folder(place)
    (left,) = contents.logs
    assert (len(left.ooms), len(left.snapshots)) == (5000, 1000)
    assert contents.skipped == (f"{NAME}.jsonl: OOMs beyond the first {count(5000)} are skipped",)
    with (place / f"{NAME}.jsonl").open("wb") as file:
        file.write(encoded(BEGIN))
        file.truncate(MOST_LOG_BYTES + 5)  # zeros: one line that is longer than any
    (left,) = process_logs_in(place)
    assert left.pid == 7


def test_a_rank_that_no_number_can_be_is_unknown(place: Path) -> None:
    (place / f"{NAME}.jsonl").write_bytes(encoded({**BEGIN, "rank": "9" * 5000}, OOM, END))
    known = RunProcesses()
    known.apply_logs(process_logs_in(place), ())
    (row,) = known.devices(over=True)
    assert row.process.rank is None


def test_more_processes_than_any_run_has_are_not_all_shown(place: Path) -> None:
    steps = [{**STEPS, "steps": {f"box-{pid}-1": 1}} for pid in range(1, 2 * MOST_SEEN)]
    devices = [{**DEVICE, "pid": 1, "device": f"cuda:{each}"} for each in range(2 * MOST_SEEN)]
    many = [{**FIGURES, "devices": devices[at : at + 100]} for at in range(0, 2 * MOST_SEEN, 100)]
    (place / "samples.jsonl").write_bytes(encoded(*steps, *many))
    known = RunProcesses()
    assert samples.read(StartedRun(place, (), "", BEGAN), known.apply) == samples.OmittedSamples(
        0, 0
    )
    assert len(known.seen) == MOST_SEEN
    assert sum(len(each.devices) for each in known.seen.values()) == MOST_SEEN


# ---- files ----


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    where = Path.cwd()
    os.chdir(path.parent)  # the path of a socket may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(where)


KINDS: list[Callable[[Path], None]] = [fifo, device, loop, folder, listening]


@pytest.mark.parametrize("make", KINDS)
def test_what_is_no_regular_file_is_skipped_and_waits_for_nobody(
    make: Callable[[Path], None], place: Path
) -> None:
    names = (f"{NAME}.jsonl", "samples.jsonl", "agent-errors.log", "output.log", "x.pickle")
    for name in names:
        (place / name).unlink(missing_ok=True)
        make(place / name)
    (place / "box-8-100.jsonl").write_bytes(encoded({**BEGIN, "identity": "box-8-100", "pid": 8}))
    contents = read_folder(place)
    assert [left.pid for left in contents.logs] == [8]
    (said,) = contents.skipped
    assert said.startswith(f"{NAME}.jsonl cannot be read: ")
    (trouble,) = troubles_in(place)
    assert "agent-errors.log cannot be read" in trouble
    state, _ = shown(place)
    assert state is not None
    assert state.snapshots == ()
    for begins in ("its samples cannot be read: ", "its output cannot be read: ", said):
        assert any(note.startswith(begins) for note in state.notes), (begins, state.notes)


@pytest.mark.parametrize("make", KINDS)
def test_a_snapshot_that_is_no_regular_file_is_none(
    make: Callable[[Path], None], place: Path
) -> None:
    make(place / "oom.pickle")
    (place / f"{NAME}.jsonl").write_bytes(encoded(BEGIN, OOM, SNAPSHOT, END))
    (left,) = process_logs_in(place)
    (oom,) = left.ooms
    assert (oom.snapshot, oom.why_no_snapshot) == (None, "oom.pickle is no regular file")


# ---- run.json ----


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (DEEP, "nested too deeply"),
        (b"[1]", "no JSON object"),
        (b"", "no JSON"),
        (encoded({**RUN, "schema": 2}), "schema 2 is not 1"),
        (encoded({**RUN, "command": "rm"}), "run.command: expected a list"),
        (encoded({**RUN, "command": [1]}), "run.command[0]: expected str"),
        (encoded({**RUN, "began": "noon"}), "run.began: expected float"),
        (encoded({**RUN, "began": 1e12}), "no time between"),
        (encoded({**RUN, "ended": 1e300}), "out of range"),
        (encoded({**RUN, "signal": 77_777}), "no signal 77777"),
        (encoded({**RUN, "pid": 0}), "no process 0"),
        (encoded({**RUN, "pid": [7]}), "run.pid: expected int"),
        (b'{"schema": 1, "x": "' + b"y" * (5 << 20) + b'"}', "longer than 4096 KiB"),
    ],
)
def test_a_run_whose_facts_cannot_be_used_is_listed_with_the_reason(
    content: bytes, why: str, place: Path
) -> None:
    (place / "run.json").write_bytes(content)
    (run,) = runs.stored_runs()
    assert why in run.problem
    state, lines = shown(place)
    assert state is not None
    assert run.problem in state.notes
    assert any(why in line for line in lines)
    # What its processes have left is shown all the same.
    assert [row.steps for row in state.devices] == [3]


@pytest.mark.parametrize("make", KINDS)
def test_a_run_json_that_is_no_regular_file_is_reported(
    make: Callable[[Path], None], place: Path
) -> None:
    (place / "run.json").unlink()
    make(place / "run.json")
    (run,) = runs.stored_runs()
    assert run.problem.startswith("run.json cannot be read: ")


# ---- anything ----

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([BEGAN, 1e300, -1, 0, 1 << 70, "x/../y", "oom.pickle", "cuda:0", NAME]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
WHOLE = [BEGIN, OOM, SNAPSHOT, END, STEPS, FIGURES, RUN, DEVICE]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """One of our own lines with some of its values in the place of others."""
    line = dict(draw(st.sampled_from(WHOLE)))
    for name in draw(st.lists(st.sampled_from(sorted(line)), max_size=3)):
        if draw(st.booleans()):
            line[name] = draw(VALUES)
        else:
            line.pop(name, None)
    return line


LINES = st.one_of(
    mutated().map(lambda line: json.dumps(line).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40),
    st.integers(0, 5000).map(lambda depth: b"[" * depth),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=st.lists(LINES, max_size=8), seen=st.lists(LINES, max_size=8), run=LINES)
def test_whatever_lies_in_a_folder_every_view_of_it_stands(
    lines: list[bytes], seen: list[bytes], run: bytes, place: Path
) -> None:
    (place / "run.json").write_bytes(run)
    (place / f"{NAME}.jsonl").write_bytes(encoded(BEGIN) + b"\n".join(lines) + b"\n")
    (place / "samples.jsonl").write_bytes(encoded(STEPS, FIGURES) + b"\n".join(seen) + b"\n")
    (kept,) = runs.stored_runs()
    contents = read_folder(place)
    known = RunProcesses()
    taken: list[Seen] = []
    samples.read(kept, taken.append)
    assert len(taken) >= 2
    for event in taken:
        known.apply(event)
    known.apply_logs(contents.logs, ())
    outcome = RunOutcome(kept, known, skipped=contents.skipped)
    assert json.loads(json.dumps(build_report(outcome), allow_nan=False))["skipped"] == list(
        contents.skipped
    )
    assert asyncio.run(format_text(outcome))
    state = WatchedRun(kept, known.devices(over=True), (), replayed=True)
    drawn = [
        *banner_lines(state, None, 80),
        *stored_run_lines(StoredRuns(runs.stored_runs).read(), 120, BEGAN),
    ]
    for row in state.devices:
        drawn += [device_line(row, 120), *missing_lines(row, 120), *trend_lines(row, 120)]
        drawn += draw_plots(row)
    assert all(span.text is not None for line in drawn for span in line)


# ---- the program's own exit code ----

HOSTILE = """
import json, os, pathlib, sys
place = pathlib.Path(os.environ["GPU_WORKBENCH_RUN"])
begin = json.loads(sys.argv[1])
for number, line in enumerate([b"[" * 99999, b'{"event": "oom", "oom": 1, "at": "x"}', b"{}"]):
    name = "box-%d-100" % number
    own = json.dumps({**begin, "identity": name, "pid": 7 + number}).encode()
    (place / (name + ".jsonl")).write_bytes(own + b"\\n" + line + b"\\n")
os.mkfifo(place / "box-9-100.jsonl")
os.mkfifo(place / "agent-errors.log")
(place / "box-10-100.jsonl").symlink_to("/dev/zero")
print("done", flush=True)
sys.exit(7)
"""


@pytest.mark.parametrize("how", with_variants([("--json",)], [(), ("--markdown",)]))
def test_the_exit_code_is_the_program_s_and_the_report_is_there(
    how: tuple[str, ...], tmp_path: Path
) -> None:
    words = (sys.executable, "-c", HOSTILE, json.dumps(BEGIN))
    done = subprocess.run(
        [sys.executable, "-m", "tui", "watch", "--no-screen", *how, "--", *words],
        env={**os.environ, "GPU_WORKBENCH_STATE": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 7, done.stderr
    assert "Traceback" not in done.stderr
    assert "nested too deeply" in done.stdout
    assert "box-9-100.jsonl cannot be read: no regular file" in done.stdout
    if how == ("--json",):
        assert [each["pid"] for each in json.loads(done.stdout)["processes"]] == [7, 8, 9]
