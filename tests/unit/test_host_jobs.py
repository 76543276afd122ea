"""Which rank of a job the others wait for, and the words for it; over hosts, without any host."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.test_command import figures, process
from tui.allocators.messages import ProcessFigures, RankJob, StepsCounted, TorchProcesses
from tui.core.events import EventBus
from tui.devices.state.jobs import BEHIND_STEPS, find_host_jobs, find_stalled
from tui.devices.state.machine import MachineState
from tui.devices.state.watched_processes import STALLED_S
from tui.devices.views.jobs import job_notes
from tui.hosts.events import HostsNamed, HostTorch

NODE = RankJob("gpu1:29500", "exp7")
MIB = 2**20


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=32), st.data())
def test_a_rank_that_goes_on_never_stalls(steps: list[int], data: st.DataObject) -> None:
    stopped = data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps)))
    for place in find_stalled(steps, stopped):
        assert stopped[place]


@given(st.integers(1, 10_000), st.integers(3, 32), st.data())
def test_the_rank_that_stopped_first_is_found_when_all_wait(
    step: int, ranks: int, data: st.DataObject
) -> None:
    slow = data.draw(st.integers(0, ranks - 1))
    steps = [step + BEHIND_STEPS] * ranks
    steps[slow] = step
    assert find_stalled(steps, [True] * ranks) == (slow,)


@pytest.mark.parametrize(
    ("steps", "stopped", "found"),
    [
        ([7, 7, 7], [True, True, True], ()),
        ([7, 7, 7], [False, False, False], ()),
        ([7, 3, 9], [False, True, False], (1,)),
        ([7, 7, 7], [False, True, False], (1,)),
        ([None, None], [False, False], ()),
        ([7, None, 7], [True, False, True], ()),
    ],
)
def test_what_says_nothing_blames_nobody(
    steps: list[int | None], stopped: list[bool], found: tuple[int, ...]
) -> None:
    assert find_stalled(steps, stopped) == found


def _rank(rank: int, allocated: int = 100 * MIB) -> tuple[TorchProcesses, ProcessFigures]:
    described = process(pid=rank + 1, rank=rank, world_size=3, launcher="torchrun", job=NODE)
    held = replace(figures(0), pid=rank + 1, allocated=allocated, at=10.0)
    return TorchProcesses(10.0, (described,)), ProcessFigures(10.0, (held,), {}, {})


def _machine(steps: dict[str, list[int]], allocated: int = 100 * MIB) -> MachineState:
    """Three hosts with a rank each, whose steps are counted once a second."""
    bus = EventBus()
    machine = MachineState(bus)
    bus.publish(HostsNamed(tuple(steps), here=False))
    for rank, (host, counts) in enumerate(steps.items()):
        processes, held = _rank(rank, allocated if rank == 2 else 100 * MIB)
        bus.publish(HostTorch(host, processes=processes))
        for second, count in enumerate(counts):
            counted = StepsCounted(10.0 + second, {str(rank + 1): count})
            bus.publish(HostTorch(host, steps=counted))
        bus.publish(HostTorch(host, figures=held))
    return machine


def test_the_rank_that_stalls_is_named_with_its_host_and_step() -> None:
    seconds = int(STALLED_S) + 20
    going = list(range(100, 100 + 10 * seconds, 10))
    stopped = [*going[:5], *[going[4]] * (seconds - 5)]
    machine = _machine({"gpu1": going, "gpu2": stopped, "gpu3": going})
    (job,) = find_host_jobs(machine)
    assert job.hosts == ("gpu1", "gpu2", "gpu3")
    assert [(item.host, item.rank) for item in job.stalled] == [("gpu2", 1)]
    (note,) = job_notes([job])
    assert note == (
        f"job gpu1:29500: 3 ranks on gpu1, gpu2, gpu3, step {going[-1]}; rank 1 on gpu2 stalls at"
        f" step {going[4]}, for {seconds - 5} s"
    )
    assert job_notes([job], "gpu2")
    assert not job_notes([job], "gpu9")


def test_ranks_that_all_go_on_have_only_their_step() -> None:
    going = list(range(100, 130))
    (job,) = find_host_jobs(_machine({"gpu1": going, "gpu2": going, "gpu3": going}))
    assert job_notes([job]) == ("job gpu1:29500: 3 ranks on gpu1, gpu2, gpu3, step 129",)


def test_the_rank_with_most_memory_is_named() -> None:
    (job,) = find_host_jobs(_machine({"a": [], "b": [], "c": []}, allocated=150 * MIB))
    (note,) = job_notes([job])
    assert note == (
        "job gpu1:29500: 3 ranks on a, b, c; rank 2 on c has 50% more allocated than the median"
    )


def test_a_host_whose_processes_are_not_read_says_why() -> None:
    machine = _machine({"a": [1], "b": [1], "c": [1]})
    host = machine.hosts.all[1]
    host.apply_torch(HostTorch("b", lost="torch processes are not read: no python3 there"))
    assert host.machine.allocators is not None
    assert host.machine.allocators.status.reason == (
        "torch processes are not read: no python3 there"
    )
