"""A replay ends where the live session ended, whatever happened in it, and moves as it is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import ceilings
from tests.children.sessions import misbehaving, ready, run, script, session_with, until
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.recordings.making import AT, Clock, header_line, recorded
from tests.screens.helpers import gpu, sample
from tests.tiers import VARIANT
from tui.core.events import LogLine, Topic, Topics
from tui.devices.state.machine import DeviceSelected
from tui.hosts.events import HostSample, HostsNamed
from tui.monitor.messages import MonitorHello
from tui.recordings import lines
from tui.recordings.lines import AnyEvent, scan_recording
from tui.recordings.recorder import Recorder
from tui.recordings.replay import AT_ONCE, ReplaySession
from tui.runs.session.session import Session
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.messages import make_empty_result

TIMEOUT_S = 60.0


def known(state: WorkbenchState) -> dict[str, Any]:
    """All that the states know, to be compared."""
    found = {**vars(state.machine), **vars(state.runs)}
    del found["machine"], found["hosts"]  # the hosts have tests of their own
    found["log"] = [line for line in state.log.lines if not line.text.startswith("recording of ")]
    found["history"], found["moments"] = vars(state.machine.history), vars(state.machine.moments)
    return found


async def replayed(path: Path, **options: Any) -> ReplaySession:
    """Play a file to its end and return the session."""
    session = ReplaySession(scan_recording(path), options.pop("speed", AT_ONCE), **options)
    await session.start()
    await ended(session)
    await session.stop()
    return session


async def ended(session: ReplaySession) -> None:
    await holds(session, lambda: session.describe_position().endswith("end"))


async def holds(session: ReplaySession, condition: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    session.state.bus.on_change(lambda _parts: changed.set())
    while not condition():
        changed.clear()
        await asyncio.wait_for(changed.wait(), TIMEOUT_S)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))


# ---- the same end ------------------------------------------------------------------------------


@VARIANT
async def test_a_session_with_devices_runs_and_a_comparison_ends_the_same_when_replayed(
    tmp_path: Path, scripted_nvml: ScriptedNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in scripted_nvml.env(busy_box(2)).items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "x.jsonl.gz"
    ceilings.keep(tmp_path / "state")
    session = Session(misbehaving(tmp_path), 0.2, attachments=[Recorder(path)])
    await session.start()
    await ready(session)
    await until(session, lambda: len(session.state.machine.devices) == 3)
    session.select_device(session.state.machine.devices[1].key)
    session.set_parameters("matmul", {"n": 64, "dtype": "float32"})
    await run(session, "matmul")
    session.reset_peaks("cpu")
    session.set_flag("mkldnn.enabled", False)
    session.cancel()
    await until(session, lambda: not session.state.runs.pending())
    await session.stop()

    replay = await replayed(path)
    assert known(replay.state) == known(session.state)
    assert replay.state.runs.book["run-1"].conditions is not None
    assert replay.state.runs.comparisons
    assert not scan_recording(path).cut


async def test_a_session_whose_runner_dies_ends_the_same_when_replayed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    python = script(tmp_path, "echo broken loader >&2; exit 127")
    session = Session(python, None, attachments=[Recorder(path)])
    await session.start()
    await until(session, lambda: session.state.runs.runner.status == "restarting")
    await session.stop()
    assert known((await replayed(path)).state) == known(session.state)


async def test_a_full_disk_is_said_once_in_the_log_and_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "x")
    session = Session(attachments=[recorder])
    write = os.write

    def full(file: int, data: bytes) -> int:
        if data.startswith(b'{"t"'):
            raise OSError(28, "No space left on device")
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        session.state.publish(LogLine("runner", "one"))
        session.state.publish(LogLine("runner", "two"))
    texts = [line.text for line in session.state.log.lines]
    assert [text for text in texts if "recording" in text] == [
        f"the recording ends here: {tmp_path / 'x'}: No space left on device"
    ]
    assert {"one", "two"} <= set(texts)


async def test_without_a_recorder_nothing_is_written(tmp_path: Path) -> None:
    async with session_with(script(tmp_path, "exit 1")) as session:
        await until(session, lambda: session.state.runs.runner.status == "restarting")
    assert not list(tmp_path.glob("*.jsonl*"))


# ---- playing -----------------------------------------------------------------------------------


async def test_each_event_comes_at_its_time_and_ages_are_those_of_then(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    clock = Clock()
    session = ReplaySession(scan_recording(path), now=clock)
    await session.start()
    await holds(session, lambda: session.state.machine.monitor.status == "ready")
    assert session.state.machine.sample is None
    assert session.describe_position() == "REPLAY 0:00/0:03 1x"
    clock.wait(0.5)
    session.faster()
    await holds(session, lambda: session.state.machine.sample is not None)
    assert session.clock() == AT + 0.5
    assert not session.state.runs.book
    clock.wait(0.5)
    assert session.clock() == AT + 1.5
    session.slower()
    await holds(session, lambda: bool(session.state.runs.book))
    assert session.state.runs.book["run-1"].progress is None
    await session.stop()


async def test_paused_it_stands_still_and_its_clock_with_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    clock = Clock()
    session = ReplaySession(scan_recording(path), now=clock)
    await session.start()
    session.toggle()
    clock.wait(100)
    assert session.describe_position() == "REPLAY 0:00/0:03 paused"
    assert session.clock() == AT
    session.toggle()
    clock.wait(100)
    session.faster()
    await ended(session)
    assert session.describe_position() == "REPLAY 0:03/0:03 end"
    await session.stop()


async def test_after_the_end_it_begins_anew_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    session = ReplaySession(scan_recording(path), AT_ONCE)
    await session.start()
    await ended(session)
    before = known(session.state)
    seen: list[Topics] = []
    session.state.bus.on_change(seen.append)
    session.toggle()
    await holds(session, lambda: frozenset(Topic) in seen)
    await ended(session)
    assert known(session.state) == before
    await session.stop()


async def test_a_loop_plays_again_and_again_from_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    session = ReplaySession(scan_recording(path), AT_ONCE, loop=True)
    rounds: list[Topics] = []
    session.state.bus.on_change(
        lambda parts: rounds.append(parts) if parts == frozenset(Topic) else None
    )
    await session.start()
    await holds(session, lambda: len(rounds) == 3)
    assert not session.state.runs.book
    assert "end" not in session.describe_position()
    await session.stop()


async def test_the_device_that_the_viewer_chose_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x"
    seen = sample(gpu(), gpu(1))
    keys = [device.id for device in seen.devices]
    told: list[tuple[float, AnyEvent]] = [(0, seen), (1, DeviceSelected(keys[1]))]
    recorded(path, told)
    assert (await replayed(path)).state.machine.selected == keys[1]
    session = ReplaySession(scan_recording(path), AT_ONCE)
    session.select_device(keys[0])
    await session.start()
    await ended(session)
    assert session.state.machine.selected == keys[0]
    await session.stop()


async def test_the_row_of_a_host_that_the_viewer_chose_is_kept_when_it_begins_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x"
    there = HostSample("gpu2", sample(gpu(), gpu(1)), 0.01, AT)
    named = HostsNamed(("gpu1", "gpu2"), here=True)
    recorded(path, [(0, sample(gpu())), (0, named), (1, there), (1, DeviceSelected("gpu1:cpu"))])
    session = ReplaySession(scan_recording(path), AT_ONCE)
    await session.start()
    await ended(session)
    session.select_device("gpu2:1")
    seen: list[Topics] = []
    session.state.bus.on_change(seen.append)
    session.toggle()
    await holds(session, lambda: frozenset(Topic) in seen)
    await ended(session)
    assert session.state.machine.selected_key == "gpu2:1"
    await session.stop()


async def test_what_this_program_does_not_know_is_named_in_the_log_and_passed_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x"
    new = b'{"t":1,"from":"runner","message":{"type":"of_tomorrow"}}\n'
    path.write_bytes(header_line() + new + lines.encode_event(2, LogLine("runner", "after")))
    texts = [line.text for line in (await replayed(path)).state.log.lines]
    assert texts[-2:] == ["not played: unknown message type 'of_tomorrow'", "after"]


async def test_it_says_what_it_is_and_where_it_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path, title="made by hand")
    path.write_bytes(path.read_bytes()[:-5])
    texts = [line.text for line in (await replayed(path)).state.log.lines]
    assert texts[0].startswith("recording of 2025-06-15T15:06:40+00:00 by gpu-workbench ")
    assert texts[0].endswith(": made by hand")
    assert "breaks off" in texts[1]


async def test_nothing_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    session = await replayed(path)
    before = known(session.state)
    session.run(["matmul"])
    session.set_flag("mkldnn.enabled", False)
    session.cancel()
    session.restart_runner()
    assert known(session.state) == before


async def test_an_error_of_its_own_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    recorded(path)
    session = ReplaySession(scan_recording(path), AT_ONCE)
    path.unlink()
    told: list[BaseException] = []
    session.on_error(told.append)
    await session.start()
    while not told:
        await asyncio.sleep(0)
    assert "does not exist" in str(told[0])
    await session.stop()


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("out of memory: CUDA out of memory. Tried to allocate 2.00 GiB.", True),
        ("RuntimeError: something else", False),
        (None, False),
    ],
)
def test_what_a_run_said_that_ran_out_of_memory_is_found(
    tmp_path: Path, reason: str | None, told: bool
) -> None:
    request = messages.Run("run-1", "matmul", "cuda:0", {}, {})
    finished = messages.Finished(make_empty_result(request, reason))
    recorded(tmp_path / "x", [(0.0, MonitorHello(1, 7)), (1.0, finished)])
    found = ReplaySession(scan_recording(tmp_path / "x"), AT_ONCE).out_of_memory()
    assert found == (reason if told else "")


def test_a_line_that_is_not_as_it_should_be_says_nothing_of_memory(tmp_path: Path) -> None:
    odd = b'{"t":1,"from":"runner","message":{"type":"finished","result":["CUDA out of memory"]}}\n'
    (tmp_path / "x").write_bytes(header_line() + odd)
    assert ReplaySession(scan_recording(tmp_path / "x"), AT_ONCE).out_of_memory() == ""
