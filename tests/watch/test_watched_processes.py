"""What is made of what was seen of a run: rows, points, marks, steps, and why something is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import gpu, gpu_process, sample
from tests.watch.test_findings import GIB, MIB, figures
from tui.allocators.agents import AgentState
from tui.allocators.messages import (
    CPU_BUILD,
    NO_TORCH,
    DevicesPlaced,
    Placed,
    ProcessFigures,
    StepsCounted,
    TorchProcess,
    TorchProcesses,
)
from tui.devices.state.watched_processes import MOST_POINTS
from tui.watch.runs.ooms import Oom
from tui.watch.runs.process_logs import ProcessLog, RequestedSnapshot
from tui.watch.state.alarms import GrowthWarnings
from tui.watch.state.processes import KILLED, SIMULATED, RunProcesses

BEGAN = 1e9


def process(pid: int = 7, rank: int | None = None, **facts: object) -> TorchProcess:
    known = TorchProcess(
        pid=pid,
        start=BEGAN,
        parent=1,
        user="u",
        command="python",
        torch="2.13.0",
        rank=rank,
        local_rank=rank,
        world_size=None,
        launcher=None,
        visible_devices=None,
        device_order=None,
    )
    return replace(known, **facts)  # type: ignore[arg-type]


def agent(pid: int = 7, steps: int = 0) -> AgentState:
    return AgentState(f"box-{pid}-100", pid, "/run", steps, 0, 0, False, 0)


def left(pid: int = 7, **facts: object) -> ProcessLog:
    known = ProcessLog(f"box-{pid}-100", pid, "box", None, "2.13.0", BEGAN + 1)
    return replace(known, **facts)  # type: ignore[arg-type]


def held(at: float, allocated: int = GIB, pid: int = 7, **values: int) -> ProcessFigures:
    reading = replace(figures(BEGAN + at, allocated=allocated, **values), pid=pid)
    return ProcessFigures(BEGAN + at, (reading,))


def seen(*processes: TorchProcess) -> RunProcesses:
    found = RunProcesses()
    found.apply(TorchProcesses(BEGAN, processes))
    return found


def oom(number: int = 1, device: int = 0, **facts: object) -> Oom:
    known = Oom(number, BEGAN + 9, 4, device, 2 * GIB, GIB, 8 * GIB, 0, 0, "main", "train.py:12")
    return replace(known, **facts)  # type: ignore[arg-type]


def test_rows_stand_by_rank_then_pid_then_device() -> None:
    known = seen(process(5), process(9, rank=0), process(8, rank=1))
    known.apply(held(1, pid=8))
    rows = [(row.process.rank, row.process.pid, row.device) for row in known.devices(over=False)]
    assert rows == [(0, 9, ""), (1, 8, "cuda:0"), (None, 5, "")]


def resident(at: float, **sizes: int) -> ProcessFigures:
    return ProcessFigures(BEGAN + at, (), host_rss={pid[1:]: size for pid, size in sizes.items()})


def test_a_run_on_the_cpu_keeps_its_program_after_the_end_without_its_workers() -> None:
    main = process(7, reason=CPU_BUILD)
    worker = process(8, parent=7, reason=CPU_BUILD)
    shell = process(6, torch=None, reason=NO_TORCH)
    known = seen(shell, main, worker)
    for second in range(40):
        known.apply(resident(second, p6=MIB, p7=GIB + 8 * second * MIB, p8=GIB))
    rows = known.devices(over=False)
    assert [row.process.pid for row in rows] == [7, 8]
    known.apply(TorchProcesses(BEGAN + 40, ()))
    (row,) = known.devices(over=True)
    assert (row.process.pid, row.ended) == (7, "ended")
    assert row.host_rss == row.host_peak == GIB + 312 * MIB
    assert row.host_points[0].resident == GIB
    (finding,) = row.findings
    assert finding.text.startswith("host memory grew 480 MiB/min")


def test_processes_without_a_gpu_are_left_out_once_another_has_used_one() -> None:
    known = seen(process(7), process(8, parent=7))
    known.apply(resident(1, p7=GIB, p8=GIB))
    known.apply(held(2))
    known.apply(TorchProcesses(BEGAN + 3, (process(7),)))
    (row,) = known.devices(over=False)
    assert (row.process.pid, row.device, row.host_rss) == (7, "cuda:0", GIB)


def test_points_have_the_steps_that_were_reported_until_then() -> None:
    known = seen(process())
    known.apply(held(1))
    for at, steps in ((2, 10), (4, 30)):
        known.apply(StepsCounted(BEGAN + at, {"box-7-100": steps}))
        known.apply(held(at + 0.5))
        known.apply(held(at + 1))
    known.apply_agents([agent()])
    (row,) = known.devices(over=False)
    assert [point.step for point in row.points] == [None, 10, 10, 30, 30]
    assert (row.steps, row.steps_per_s) == (30, 10.0)
    assert (row.growth, row.why_no_growth) == (None, "not known yet (needs 30 s or 48 readings)")


def test_steps_a_second_are_of_the_last_seconds() -> None:
    known = seen(process())
    for second in range(100):
        known.apply(StepsCounted(BEGAN + second, {"box-7-100": 5 * min(second, 60)}))
    known.apply_agents([agent()])
    (row,) = known.devices(over=False)
    assert (row.steps, row.steps_per_s) == (300, 0.0)


def test_steps_of_the_programs_of_a_process_are_added() -> None:
    known = seen(process())
    for at, name, steps in ((1, "box-7-100", 10), (2, "box-7-100.2", 3), (3, "box-7-100.2", 5)):
        known.apply(StepsCounted(BEGAN + at, {name: steps}))
    programs = [
        left(replaced=True, ooms=(oom(),), oom_count=1),
        left(identity="box-7-100.2", program=2, ooms=(oom(), oom(2)), oom_count=2),
    ]
    known.apply_logs(programs, [])
    row, *_ = known.devices(over=False)
    assert row.steps == 15
    assert row.log is not None
    assert ([each.number for each in row.log.ooms], row.log.oom_count) == ([1, 2, 3], 3)
    assert [each.steps for each in known.completed_logs()] == [10, 5]


def test_there_are_no_steps_a_second_once_no_agent_answers() -> None:
    known = seen(process())
    known.apply(held(1))
    for second in range(4):
        known.apply(StepsCounted(BEGAN + second, {"box-7-100": 5 * second}))
    known.apply_agents([agent()])
    assert [row.steps_per_s for row in known.devices(over=False)] == [5.0]
    # The interpreter is held: how fast it goes is not known.
    known.apply_agents([])
    assert [row.steps_per_s for row in known.devices(over=False)] == [None]
    # It has ended: what it did in its last seconds is not what it does.
    known.apply_agents([agent()])
    assert [row.steps_per_s for row in known.devices(over=True)] == [None]


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=5 * MOST_POINTS))
def test_points_are_bounded_and_keep_the_highest(sizes: list[int]) -> None:
    known = seen(process())
    for at, size in enumerate(sizes):
        known.apply(held(at, size, reserved=size + MIB))
    (row,) = known.devices(over=False)
    assert len(row.points) <= MOST_POINTS
    assert max(point.allocated for point in row.points) == max(sizes)
    assert max(point.reserved for point in row.points) == max(sizes) + MIB
    times = [point.at for point in row.points]
    assert times == sorted(times)
    assert {point.allocated for point in row.points} <= set(sizes)


def test_flushes_ooms_and_snapshots_are_marked_where_they_were(tmp_path: Path) -> None:
    known = seen(process())
    known.apply(held(1, alloc_retries=2))
    known.apply(held(2, alloc_retries=5))
    # This one belongs to an OOM, which is marked itself.
    known.apply(held(3, alloc_retries=6, ooms=1))
    taken = RequestedSnapshot(BEGAN + 5, 3, tmp_path / "snapshot.pickle")
    known.apply_logs([left(ooms=(oom(), oom(2, device=1)), snapshots=(taken,))], [])
    first, second = known.devices(over=False)
    told = [(mark.kind, mark.at - BEGAN, mark.step) for mark in first.marks]
    assert told == [("cache flush", 2, None), ("snapshot", 5, 3), ("OOM", 9, 4)]
    assert first.marks[0].text == "the allocator flushed its cache 3 times"
    assert first.marks[1].snapshot == taken.path
    assert first.marks[2].text == (
        "2.0 GiB requested at train.py:12, 1.0 GiB free; unknown whether the program continues"
    )
    # It ran out on a device that was never seen to hold something.
    assert (second.device, second.figures) == ("cuda:1", None)
    assert second.process.reason == "no figures of it were read"
    assert [mark.kind for mark in second.marks] == ["snapshot", "OOM"]


def test_how_a_process_has_ended_is_what_its_agent_has_left() -> None:
    for facts, gone, expected in (
        ({"ended": True, "kind": "OutOfMemoryError"}, False, "ended by OutOfMemoryError"),
        ({"ended": True, "steps": 60}, True, "ended"),
        ({}, True, KILLED),
        ({}, False, ""),
    ):
        known = seen(process())
        known.apply(held(1))
        known.apply(StepsCounted(BEGAN + 2, {"box-7-100": 55}))
        known.apply_logs([left(**facts)], [])
        if gone:
            known.apply(TorchProcesses(BEGAN + 3, ()))
        (row,) = known.devices(over=False)
        assert row.ended == expected
        assert row.steps == facts.get("steps", 55)
        assert known.completed_logs()[0].steps == facts.get("steps", 55)
    unknown = seen(process())
    unknown.apply(held(1))
    assert [row.ended for row in unknown.devices(over=True)] == ["ended"]


def test_a_process_that_an_oom_ended_has_the_figures_of_then() -> None:
    last = oom(2, handled=False, allocated=7 * GIB, reserved=8 * GIB)
    for facts, expected in (
        ({"ended": True, "ooms": (oom(handled=True), last)}, last),
        ({"ended": True, "ooms": (last, oom(3, handled=True))}, None),
        ({"ended": True, "ooms": (oom(4, device=1, handled=False),)}, None),
        ({"ooms": (last,)}, None),
    ):
        known = seen(process())
        known.apply(held(1, allocated=MIB))
        known.apply_logs([left(**facts)], [])
        assert known.devices(over=False)[0].at_oom == expected


def test_what_used_no_gpu_is_forgotten_at_its_end_and_what_was_not_seen_is_reported() -> None:
    known = seen(process(7), process(8))
    known.apply_logs([left(9, rank="3", ended=True)], [])
    assert [row.process.pid for row in known.devices(over=False)] == [9, 7, 8]
    never = known.devices(over=False)[0]
    assert (never.process.rank, never.process.torch) == (3, "2.13.0")
    assert never.process.reason == "it ended before it was seen"
    known.apply(TorchProcesses(BEGAN + 1, (process(8),)))
    assert [row.process.pid for row in known.devices(over=False)] == [9, 8]
    assert [row.process.pid for row in known.devices(over=True)] == [9]


def test_a_shell_has_a_row_until_there_is_one_of_torch() -> None:
    shell = process(6, reason=NO_TORCH)
    known = seen(shell)
    assert [row.process.pid for row in known.devices(over=False)] == [6]
    known.apply(TorchProcesses(BEGAN + 1, (shell, process(7))))
    assert [row.process.pid for row in known.devices(over=False)] == [7]


def test_a_rank_of_which_torch_was_not_found_as_it_ended_keeps_its_row() -> None:
    known = seen(process(8, rank=0), process(9, rank=1))
    known.apply(held(1, pid=8))
    known.apply(held(1, pid=9))
    known.apply(TorchProcesses(BEGAN + 2, (process(8, rank=0), process(9, reason=NO_TORCH))))
    rows = known.devices(over=True)
    assert [(row.process.rank, row.process.pid) for row in rows] == [(0, 8), (1, 9)]


def test_a_pid_that_is_given_to_another_process_has_two_rows() -> None:
    known = seen(process())
    known.apply(held(1, GIB))
    known.apply(TorchProcesses(BEGAN + 90, (process(start=BEGAN + 80),)))
    known.apply(held(91, 2 * GIB))
    known.apply_logs([left(ended=True), left(identity="box-7-900", began=BEGAN + 85)], [])
    rows = known.devices(over=False)
    assert [row.figures.allocated for row in rows if row.figures] == [GIB, 2 * GIB]
    assert [row.ended for row in rows] == ["ended", ""]
    # The kernel's start times are worked out anew by each program that reads them.
    known.apply(TorchProcesses(BEGAN + 92, (process(start=BEGAN + 80.4),)))
    assert len(known.devices(over=False)) == 2
    # It is asked for by its pid, and is not there.
    absent = process(start=None, reason="there is no process 7", refused=True)
    known.apply(TorchProcesses(BEGAN + 99, (absent,)))
    assert [bool(row.ended) for row in known.devices(over=False)] == [True, True]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _: None, "the first CUDA call starts it"),
        (lambda known: known.apply(held(1)), "pass on PYTHONPATH and GPU_WORKBENCH_RUN"),
        (lambda known: known.apply_logs([left()], []), "start gpu-workbench with the same XDG"),
        (lambda known: known.apply_logs([], ["7: ImportError: x"]), "start: ImportError: x"),
    ],
)
def test_why_there_is_no_agent_has_what_would_help(make: object, says: str) -> None:
    known = seen(process())
    make(known)  # type: ignore[operator]
    (row,) = known.devices(over=False)
    assert row.agent is None
    assert says in row.why_no_agent
    known.apply_agents([agent()])
    (row,) = known.devices(over=False)
    assert (row.agent, row.why_no_agent) == (agent(), "")
    known.apply(held(3))
    known.apply(TorchProcesses(BEGAN + 4, ()))
    (row,) = known.devices(over=False)
    assert (row.agent, row.why_no_agent) == (None, "the process has ended")


def test_a_device_stays_on_its_gpu_and_what_changed_is_to_be_kept() -> None:
    known = seen(process())
    known.apply(held(1))
    nothing = known.apply_sample(sample(at=BEGAN))
    assert nothing is not None
    assert known.devices(over=False)[0].placed.why_no_id == "this machine has no NVML device"
    placed = Placed("GPU-1", GIB, "", "")
    known.apply(DevicesPlaced(BEGAN, {"7 cuda:0": placed, "8 cuda:0": placed, "x": placed}))
    assert known.apply_sample(sample(at=BEGAN + 1)) is None
    assert known.devices(over=False)[0].placed == placed


def test_a_simulated_device_is_never_one_of_this_machines_gpus() -> None:
    known = seen(process())
    known.simulated = True
    known.apply(held(1))
    mine = gpu(processes=(gpu_process(pid=7, started_at=BEGAN),))
    known.apply_sample(sample(mine, at=BEGAN))
    (row,) = known.devices(over=False)
    assert row.placed == SIMULATED
    assert (row.holders, row.full_gpu, known.listed_holders) == ((), None, ())
    real = seen(process())
    real.apply(held(1))
    real.apply_sample(sample(mine, at=BEGAN))
    assert real.devices(over=False)[0].placed.id == mine.id


def test_figures_alone_are_rows_too() -> None:
    known = RunProcesses()
    known.apply(held(1))
    known.apply(StepsCounted(BEGAN, {"box-with-dashes-7-100": 4, "junk": 1}))
    rows = [row for row in known.devices(over=True) if row.figures]
    assert [(row.process.pid, row.steps, row.process.reason) for row in rows] == [
        (7, 4, "its description was not stored")
    ]


def test_a_growth_that_will_fill_its_gpu_is_warned_of_once() -> None:
    known, warnings = seen(process(7), process(8)), GrowthWarnings()
    card = gpu(0, processes=(gpu_process(7, started_at=BEGAN), gpu_process(8, started_at=BEGAN)))
    said: list[str] = []
    for number in range(100):
        step, part = divmod(number, 5)
        at, held_most = number / 10, GIB + step * 256 * MIB + 400 * MIB
        known.apply(StepsCounted(BEGAN + at, {"box-7-100": step, "box-8-100": step}))
        allocated = GIB + step * 256 * MIB + part * 100 * MIB
        known.apply(held(at, allocated, 7, reserved=held_most, allocated_peak=held_most))
        known.apply(held(at, GIB, 8, reserved=held_most))
        free = 8 * GIB - step * 256 * MIB
        memory = replace(card.memory, free=free)
        known.apply_sample(sample(replace(card, memory=memory), at=BEGAN + at))
        said += warnings.find_new(known)
    assert said == [
        "7 cuda:0: allocated has risen 256 MiB/step, in 12 steps so far; at this rate, "
        "the GPU is full in about 20 steps, 10 s"
    ]


def test_host_memory_that_will_fill_the_machine_is_warned_of_once() -> None:
    known, warnings = seen(process(7)), GrowthWarnings()
    said: list[str] = []
    for number in range(200):
        at = BEGAN + number / 4
        known.apply(ProcessFigures(at, (), host_rss={"7": GIB + number * 32 * MIB}))
        here = sample(at=at)
        memory = replace(here.host.memory, available=16 * GIB - number * 32 * MIB)
        known.apply_sample(replace(here, host=replace(here.host, memory=memory)))
        said += warnings.find_new(known)
    (line,) = said
    assert line.startswith(
        "7: host memory grows 7.50 GiB/min, over 30 s; at this rate, the host's "
    )
    assert line.endswith("memory is full in about 1 min 38 s")
