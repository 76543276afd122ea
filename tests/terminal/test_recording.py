"""``--record`` and ``replay`` as programs, on a terminal."""

from __future__ import annotations

import gzip
import signal
import sys
from pathlib import Path

import pytest

import tui.recordings
from tests.children.sessions import saying
from tests.in_process import run_here
from tests.recordings.making import header_line, recorded
from tests.terminal.faults import read_to_end
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT
from tui.devices.memory import account
from tui.devices.memory.model import get_value
from tui.devices.state.machine import SIMULATED_SHORT
from tui.monitor.messages import Sample
from tui.recordings import DEMO, DEMO_SNAPSHOT
from tui.recordings.lines import Recording, Scene, decode_event, read_events, scan_recording
from tui.recordings.replay import OUT_OF_MEMORY, ReplaySession
from tui.runs.state.state import WorkbenchState

WITHOUT_TORCH = (
    "import sys; sys.modules.update(torch=None, pynvml=None, psutil=None);"
    "from tui.cli.main import main; sys.exit(main())"
)


@VARIANT
def test_what_was_recorded_until_a_kill_is_played(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    variables = {"GPU_WORKBENCH_STATE": str(tmp_path / "state")}
    argv = (*PROGRAM, "--python", saying(tmp_path), "--record", str(path), "--redact")
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


SHIPPED = Path(tui.recordings.__path__[0]) / DEMO


@pytest.fixture(scope="module")
def shipped() -> tuple[Recording, WorkbenchState]:
    """Return the shipped recording, and the state at its end."""
    recording = scan_recording(SHIPPED).recording
    state = WorkbenchState(simulated=recording.simulated)
    for line in read_events(SHIPPED):
        state.publish(decode_event(line))
    return recording, state


@pytest.mark.parametrize(("columns", "rows"), [pytest.param(80, 24, marks=VARIANT), (160, 40)])
def test_the_recording_that_comes_along_plays_without_torch_and_says_what_is_simulated(
    shipped: tuple[Recording, WorkbenchState], columns: int, rows: int
) -> None:
    recording, _ = shipped
    argv = (sys.executable, "-c", WITHOUT_TORCH, "demo", "--speed", "max")
    with Terminal(argv, columns=columns, rows=rows) as terminal:
        text = terminal.until_shows("REPLAY", "end", "cuda:0")
        assert (SIMULATED_SHORT in text) is recording.simulated
        assert len(terminal.family()) == 1
        for tab in "241":
            terminal.keys(tab)
            text = terminal.until_shows("REPLAY", "end")
            assert (SIMULATED_SHORT in text) is recording.simulated


@VARIANT
def test_what_ran_out_of_memory_in_it_is_looked_into_in_the_snapshot_tab() -> None:
    with Terminal((*PROGRAM, "demo", "--speed", "max"), columns=160) as terminal:
        terminal.until_shows("REPLAY", "end")
        terminal.keys("3")
        terminal.until_shows(
            DEMO_SNAPSHOT, "OOM at demo_workloads.py", "Used 139.7 GiB of 139.8 GiB"
        )


def test_the_recording_that_comes_along_is_small_whole_and_names_nobody() -> None:
    found = scan_recording(SHIPPED)
    assert SHIPPED.stat().st_size < 200_000
    assert (SHIPPED.parent / DEMO_SNAPSHOT).stat().st_size < 100_000
    assert not found.cut
    assert found.recording.redacted
    for path in (SHIPPED, SHIPPED.parent / DEMO_SNAPSHOT):
        data = gzip.decompress(path.read_bytes())
        assert b"/root/" not in data
        assert b"/home/" not in data


def test_the_stacks_of_its_snapshot_begin_in_the_workload() -> None:
    data = gzip.decompress((SHIPPED.parent / DEMO_SNAPSHOT).read_bytes())
    assert b"demo_workloads.py" in data
    for place in (b"/workloads/runner/", b"/workloads/measure/", b"gpu_workbench_entry.py"):
        assert place not in data


def test_it_claims_no_hardware_that_was_not_there(
    shipped: tuple[Recording, WorkbenchState],
) -> None:
    recording, state = shipped
    assert state.machine.environment is not None
    names = [
        device.name for device in state.machine.environment.devices if device.id.startswith("cuda")
    ]
    if recording.simulated:
        assert all("simulated" in name for name in names)
        assert "invented" in recording.title


def test_it_shows_another_process_and_the_parts_of_the_memory(
    shipped: tuple[Recording, WorkbenchState],
) -> None:
    _, state = shipped
    gpus = [view for view in state.machine.devices if view.nvml is not None]
    first, last = gpus[0], gpus[-1]
    assert last.nvml is not None
    strangers = [row for row in last.nvml.processes or () if not row.ours]
    assert any((row.memory or 0) > 2**30 for row in strangers)
    assert state.machine.selected == first.key
    parts = {
        part.key: get_value(part.bytes)
        for part in account(state.machine, first, store_end(state)).known
    }
    assert all(parts[key] for key in ("allocated", "cached", "workspace", "context"))


def store_end(state: WorkbenchState) -> float:
    assert state.machine.sample is not None
    return state.machine.sample.at


def test_it_has_speed_ups_a_verdict_on_cudnn_and_a_run_out_of_memory(
    shipped: tuple[Recording, WorkbenchState],
) -> None:
    _, state = shipped
    ended = [run.result for run in state.runs.book.values() if run.result is not None]
    by_device = {device: {each.workload for each in ended if each.device == device and each.time}
                 for device in ("cpu", "cuda:0")}  # fmt: skip
    assert {"training_step", "tiny_model"} <= by_device["cpu"] & by_device["cuda:0"]
    comparisons = [state.comparison for state in state.runs.comparisons.values() if state.done]
    assert [(each.flag, each.verdict) for each in comparisons if each] == [
        ("cudnn.conv.fp32_precision", "faster")
    ]
    (lacking,) = [each for each in ended if OUT_OF_MEMORY in (each.reason or "")]
    assert ReplaySession(scan_recording(SHIPPED)).out_of_memory() == lacking.reason
    assert lacking.status == "failed"


def test_its_scenes_show_all_that_it_has_in_little_more_than_a_minute() -> None:
    events = [(line.at, decode_event(line)) for line in read_events(SHIPPED)]
    scenes = [(at, event) for at, event in events if isinstance(event, Scene)]
    assert events[-1][0] <= 70
    # A terminal of 80 columns has room for the keys beside them.
    assert all(len(scene.caption) <= 60 for _, scene in scenes)
    assert {(scene.tab, scene.view) for _, scene in scenes} == {
        ("workbench", ""), ("workbench", "detail"), ("processes", ""), ("memory", ""),
        ("snapshot", "verdict"), ("snapshot", "timeline"), ("snapshot", "flame"),
    }  # fmt: skip


def test_the_gpu_of_the_other_process_warms_up_and_leaves_its_idle_power() -> None:
    samples = [
        event
        for event in (decode_event(line) for line in read_events(SHIPPED))
        if isinstance(event, Sample)
    ]
    first, last = (sample.devices[-1] for sample in (samples[0], samples[-1]))
    assert (last.temperature_c or 0) > (first.temperature_c or 0)
    assert (last.power_w or 0) > (first.power_w or 0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"root:x:0:0\n", "is not a recording: its first line is unknown; make one with"),
        (header_line(version=9), "is a recording of format 9, this program plays 2"),
        (header_line() + b"{}\n", "is damaged: line 2: it holds no message"),
    ],
)
def test_a_file_that_cannot_be_played_is_one_line_and_exit_code_1(
    tmp_path: Path, data: bytes, says: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    done = run_here("replay", str(path))
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert says in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "FILE"),
        (["x", "y"], "too many arguments: y"),
        (["x", "--speed", "0"], "--speed 0: give a number above 0"),
        (["x", "--speed", "nan"], "--speed nan: give a number above 0"),
    ],
)
def test_wrong_usage_of_replay_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    done = run_here("replay", *arguments)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert says in line


def test_a_replay_without_a_terminal_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "x")
    done = run_here("replay", str(tmp_path / "x"))
    assert done.code == 2
    assert "needs a terminal" in done.err


def test_a_recording_takes_no_other_files_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("mine")
    with Terminal((*PROGRAM, "--record", str(path))) as terminal:
        terminal.until_shows("the file exists; name another")
        assert terminal.exit_code() == 2
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", [pytest.param("x", marks=VARIANT), "x.gz"])
def test_a_recording_that_the_disk_has_no_room_for_is_told_at_the_end_and_exit_code_1(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    # A file may not grow beyond this many blocks; the catalogue alone takes more.
    shell = ("/bin/sh", "-c", 'ulimit -f 4; exec "$@"', "sh")
    argv = (*shell, *PROGRAM, "--python", saying(tmp_path), "--record", str(path))
    with Terminal(argv, columns=200) as terminal:
        terminal.until_shows("ready", "transfer")
        terminal.keys("q")
        assert terminal.exit_code() == 1
        read_to_end(terminal)
        said = terminal.output[terminal.output.rfind(b"\x1b[?1006l") :].decode()
    assert "gpu-workbench: the recording is cut after 0:" in said
    assert f"{path}: File too large" in said
    assert scan_recording(path).cut


def test_the_demo_is_played_from_an_empty_tab_and_q_comes_back(tmp_path: Path) -> None:
    variables = {"GPU_WORKBENCH_STATE": str(tmp_path / "state")}
    with Terminal((*PROGRAM, "--python", saying(tmp_path)), variables=variables) as terminal:
        terminal.until_shows("ready", "transfer")
        terminal.keys("3")
        terminal.until_shows("Open the example snapshot", "Play the demo")
        terminal.keys("G")
        terminal.keys("\r")
        terminal.until_shows("REPLAY 0:", "1x")
        terminal.keys("q")
        terminal.until_shows("runs a workload", "ready")
        terminal.keys("q")
        assert terminal.exit_code() == 0
