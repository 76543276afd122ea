"""Which processes are watched, what is told of each, and what is said where nothing can be read."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.watch.target import TORCH, ScriptedTarget, build_target, running
from tui.allocators.discover import Ranks, job_of, ranks_of
from tui.allocators.messages import (
    NO_TENSOR_YET,
    NOT_USED_YET,
    WATCH_EVENTS,
    ListedProcesses,
    ProcessFigures,
    RankJob,
    TorchProcess,
    TorchProcesses,
    WatchHello,
    WatchPace,
    WatchTargets,
)
from tui.allocators.process_files import Access, no_process, refusal
from tui.allocators.watch import EAGER_SEARCH_S, IDLE_SEARCH_S, MOST_EAGER, AllocatorWatch
from workloads.protocol import wire

NOBODY = 65_534
TOP = Path(__file__).parents[2]
DEADLINE = 30.0


def looked(watch: AllocatorWatch) -> dict[int, TorchProcess]:
    told = watch.search(time.time())
    assert told is not None
    return {each.pid: each for each in told.processes}


def watching(*pids: int, children: bool = False) -> AllocatorWatch:
    return AllocatorWatch(0.1, WatchTargets(pids, children))


def allocated(watch: AllocatorWatch) -> dict[tuple[int, str], int]:
    figures = watch.read(time.time())
    # Where all are watched, others on this machine may be in change.
    assert not watch.targets.pids or figures.unavailable == {}
    return {(each.pid, each.device): each.allocated for each in figures.devices}


def expected(target: ScriptedTarget, device: int = 0) -> dict[tuple[int, str], int]:
    return {(target.pid, f"cuda:{device}"): target.numbers(device)[48]}


# ---- which, and what is told of them ----


def test_processes_with_torch_are_found_and_reported_with_what_their_launcher_said(
    target_program: Path,
) -> None:
    variables = {
        "TORCHELASTIC_RUN_ID": "x",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "CUDA_VISIBLE_DEVICES": "5,1",
    }
    with running(target_program, variables) as ranked, running(target_program) as plain:
        for target in (ranked, plain):
            target.make(1)
            target.do("churn", 0, 40)
        watch = watching()
        found = looked(watch)
        assert os.getpid() not in found
        told = found[ranked.pid]
        assert (told.rank, told.local_rank, told.world_size, told.launcher) == (3, 1, 8, "torchrun")
        assert (told.visible_devices, told.torch, told.reason) == ("5,1", TORCH, "")
        assert told.parent == os.getpid()
        assert told.command == str(target_program)
        assert told.start is not None
        assert abs(told.start - time.time()) < DEADLINE
        other = found[plain.pid]
        assert other.rank is None
        assert "no launcher" in other.unavailable["rank"]
        seen = allocated(watch)
        assert seen.items() >= {**expected(ranked), **expected(plain)}.items()


def test_only_what_was_asked_for_is_watched(target: ScriptedTarget, target_program: Path) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    with running(target_program) as other:
        other.make(1)
        other.do("churn", 0, 40)
        watch = watching(target.pid)
        assert set(looked(watch)) == {target.pid}
        assert allocated(watch) == expected(target)
        watch.apply_request(WatchTargets((other.pid,)))
        assert set(looked(watch)) == {other.pid}
        assert allocated(watch) == expected(other)
        # With what it has started: these tests' own process is told, and says why not.
        watch.apply_request(WatchTargets((os.getpid(),), children=True))
        found = looked(watch)
        assert {target.pid, other.pid} <= set(found)
        watch.apply_request(WatchTargets((os.getpid(),), children=False))
        assert set(looked(watch)) == {os.getpid()}


def test_this_users_others_come_with_the_requested_ones_if_the_request_says_so(
    target: ScriptedTarget, target_program: Path
) -> None:
    target.make(1)
    with running(target_program) as other:
        other.make(1)
        watch = AllocatorWatch(0.1, WatchTargets((target.pid,), others=True))
        found = looked(watch)
        assert found[target.pid].requested == (target.pid,)
        assert found[other.pid].requested == ()
        watch.apply_request(WatchTargets((target.pid,)))
        assert set(looked(watch)) == {target.pid}


def test_a_process_names_its_requested_ancestors_from_the_nearest_on(
    target: ScriptedTarget,
) -> None:
    target.make(1)
    own = os.getpid()
    found = looked(watching(own, target.pid, children=True))
    assert found[target.pid].requested == (target.pid, own)
    found = looked(watching(own, children=True))
    assert found[target.pid].requested == (own,)
    found = looked(watching(own, target.pid))
    assert found[target.pid].requested == (target.pid,)
    missing = 4_194_305
    assert looked(watching(missing))[missing].requested == (missing,)


def test_each_request_is_answered_with_the_list_though_nothing_changed(
    target: ScriptedTarget,
) -> None:
    watch = watching(target.pid)
    before = looked(watch)
    assert watch.search(time.time()) is None
    watch.apply_request(WatchTargets((target.pid,), children=False))
    assert looked(watch) == before
    assert watch.search(time.time()) is None


def test_a_process_that_nvml_lists_is_reported_if_it_has_torch(target: ScriptedTarget) -> None:
    target.make(1)
    watch = watching()
    watch.apply_request(ListedProcesses((target.pid, os.getppid(), 4_194_305)))
    found = looked(watch)
    assert target.pid in found
    assert not {os.getppid(), 4_194_305} & set(found)


def test_a_process_that_nvml_lists_before_torch_allocates_is_searched_again_soon(
    target: ScriptedTarget,
) -> None:
    watch = watching()
    assert watch.search_interval_s == IDLE_SEARCH_S
    watch.apply_request(ListedProcesses((target.pid,)))
    for _ in range(MOST_EAGER):
        assert looked(watch)[target.pid].reason == NO_TENSOR_YET
        assert watch.search_interval_s == EAGER_SEARCH_S
        watch.apply_request(WatchTargets((), children=False))
    assert looked(watch)[target.pid].reason == NOT_USED_YET
    assert watch.search_interval_s == IDLE_SEARCH_S
    target.make(1)
    target.do("churn", 0, 40)
    watch.apply_request(WatchTargets((), children=False))
    assert not looked(watch)[target.pid].reason


def test_a_process_is_reported_again_only_where_something_of_it_changed(
    target: ScriptedTarget,
) -> None:
    watch = watching(target.pid)
    assert looked(watch)[target.pid].reason == NOT_USED_YET
    assert watch.search(time.time()) is None
    assert watch.read(time.time()).devices == ()


def test_a_process_that_ends_costs_its_row(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    watch = watching()
    assert target.pid in looked(watch)
    target.process.kill()
    os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
    assert target.pid not in {each.pid for each in watch.read(time.time()).devices}
    assert watch.search_now.is_set()
    assert target.pid not in looked(watch)
    asked = watching(target.pid)
    assert "there is no process" in looked(asked)[target.pid].reason


def test_a_process_that_runs_another_program_is_read_anew(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    watch = watching(target.pid)
    looked(watch)
    assert target.process.stdin is not None
    target.process.stdin.write("exec\n")
    target.process.stdin.flush()
    target.make(1)
    target.do("churn", 0, 7)
    assert allocated(watch) == {}
    watch.search(time.time())
    assert allocated(watch) == expected(target)


def test_a_fork_does_not_pass_for_a_process_that_holds_the_same_again(
    target: ScriptedTarget,
) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    fork = int(target.ask("fork"))
    try:
        watch = watching()
        found = looked(watch)
        assert found[target.pid].reason == ""
        assert f"a fork of process {target.pid}" in found[fork].reason
        assert fork not in {pid for pid, _ in allocated(watch)}
        # Alone, too; and the driver knows better than addresses do.
        assert f"a fork of process {target.pid}" in looked(watching(fork))[fork].reason
        listed = AllocatorWatch(0.1, WatchTargets((fork,), children=False), (fork,))
        assert looked(listed)[fork].reason == ""
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_pid_without_a_process_is_answered() -> None:
    (told,) = looked(watching(4_194_305)).values()
    assert told.refused
    assert "there is no process 4194305" in told.reason
    assert told.start is None
    assert told.unavailable["start"] == told.reason


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({}, Ranks()),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Ranks(1, None, 2)),
        ({"RANK": "many"}, Ranks()),
        (
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "9", "SLURM_LOCALID": "1"},
            Ranks(9, 1, None, "srun"),
        ),
        # A shell in an allocation is no rank.
        ({"SLURM_JOB_ID": "4", "SLURM_PROCID": "0"}, Ranks()),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "RANK": "2"},
            Ranks(2, None, 4, "Open MPI"),
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, Ranks(2, None, 4, "MPICH")),
    ],
)
def test_ranks_are_read_as_each_launcher_tells_them(
    variables: dict[str, str], ranks: Ranks
) -> None:
    assert ranks_of(variables) == ranks


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, None),
        ({"RANK": "1"}, None),
        ({"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}, RankJob("node0:29500")),
        # An address alone may be that of many jobs.
        ({"MASTER_ADDR": "node0"}, None),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),
        ({"TORCHELASTIC_RUN_ID": "exp7"}, RankJob(run_id="exp7")),
        ({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"}, RankJob(slurm="4711.0")),
        # A shell in an allocation.
        ({"SLURM_JOB_ID": "4711"}, None),
        ({"MASTER_ADDR": "a\x1b[2Jb", "MASTER_PORT": "1"}, None),
        ({"MASTER_ADDR": "fe80::1%eth0", "MASTER_PORT": "1"}, RankJob("fe80::1%eth0:1")),
    ],
)
def test_the_job_of_a_rank_is_read_as_its_launcher_tells_it(
    variables: dict[str, str], job: RankJob | None
) -> None:
    assert job_of(variables) == job


# ---- why not ----


def access(**changes: object) -> Access:
    values: dict[str, object] = {
        "pid": 7,
        "user": 4_000_000,
        "own_user": 4_000_000,
        "may_trace": False,
        "dumpable": True,
        "scope": 0,
        "started_it": False,
        "same_namespace": True,
    }
    return Access(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "reason", "advice"),
    [
        ({"user": 4_000_001}, "it is run by uid 4000001:", "sudo gpu-workbench watch --pid 7"),
        ({"scope": 1}, "Yama's ptrace_scope is 1:", "kernel.yama.ptrace_scope=0, after which any"),
        ({"scope": 1, "started_it": True}, "a security module", "sudo"),
        ({"scope": 2}, "Yama's ptrace_scope is 2: only root", "sudo gpu-workbench"),
        ({"scope": 3, "may_trace": True}, "Yama's ptrace_scope is 3: nobody", "another value"),
        ({"dumpable": False}, "it is not dumpable:", "sudo gpu-workbench"),
        ({"own_user": 0}, "this root has no CAP_SYS_PTRACE", "--cap-add SYS_PTRACE"),
        ({"same_namespace": False}, "another PID namespace", "within that container"),
        ({"may_trace": True}, "a security module", ""),
    ],
)
def test_each_rule_has_its_sentence(changes: dict[str, object], reason: str, advice: str) -> None:
    found = refusal(access(**changes))
    assert reason in found.reason
    assert advice in found.advice
    assert bool(advice) == bool(found.advice)


def test_in_a_container_a_pid_may_be_the_host_s() -> None:
    assert "a container has its own pids" in no_process(7, True).reason
    assert "has ended, or is hidden" in no_process(7, False).reason


# ---- as a child ----


class Child:
    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tui.allocators", "serve", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=TOP,
        )

    def event(self) -> object:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        return wire.decode(line, WATCH_EVENTS)

    def until(self, holds: Callable[[object], bool]) -> object:
        while True:
            event = self.event()
            if holds(event):
                return event

    def send(self, request: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(wire.encode(request))
        self.process.stdin.flush()

    def processes(self) -> dict[int, TorchProcess]:
        found = self.until(lambda event: isinstance(event, TorchProcesses))
        assert isinstance(found, TorchProcesses)
        return {each.pid: each for each in found.processes}


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    started: list[Child] = []

    def start(*arguments: object) -> Child:
        started.append(Child(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        for stream in (each.process.stdin, each.process.stdout, each.process.stderr):
            assert stream is not None
            stream.close()


def test_the_child_tells_processes_and_figures_and_ends_with_its_parent(
    target: ScriptedTarget, child: Callable[..., Child]
) -> None:
    target.make(2)
    target.do("churn", 0, 40)
    watch = child("--interval", 0.05, "--pids", target.pid)
    assert watch.event() == WatchHello(1, watch.process.pid)
    assert watch.processes()[target.pid].reason == ""
    expected_now = target.numbers(0)[48]
    watch.until(
        lambda event: (
            isinstance(event, ProcessFigures)
            and [each.allocated for each in event.devices] == [expected_now]
        )
    )
    target.do("churn", 1, 40)
    watch.send(WatchPace(0.06))
    watch.until(lambda event: isinstance(event, ProcessFigures) and len(event.devices) == 2)
    target.process.kill()
    target.process.wait()
    assert "there is no process" in watch.processes()[target.pid].reason
    assert watch.process.stdin is not None
    watch.process.stdin.close()
    assert watch.process.wait(DEADLINE) == 0


def test_a_new_pace_does_not_wait_for_the_old_one(
    target: ScriptedTarget, child: Callable[..., Child]
) -> None:
    target.make(1)
    watch = child("--interval", 600, "--pids", target.pid)
    watch.until(lambda event: isinstance(event, ProcessFigures))
    state = Path(f"/proc/{watch.process.pid}/stat")
    while state.read_text().rpartition(") ")[2][0] != "S":
        time.sleep(0.01)  # it has not begun to wait yet
    watch.send(WatchPace(0.05))
    for _ in range(3):
        watch.until(lambda event: isinstance(event, ProcessFigures))


# ---- of another user ----

AS_NOBODY = """
import os, sys, time
from tui.allocators.messages import WatchTargets
from tui.allocators.watch import AllocatorWatch
from workloads.protocol import wire
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
told = AllocatorWatch(0.1, WatchTargets((int(sys.argv[1]),), children=False)).search(time.time())
sys.stdout.buffer.write(wire.encode(told))
"""


def told_to_nobody(pid: int) -> TorchProcess:
    """Return another user's reading of a process; that user may be unable to read this checkout."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(pid)], cwd=TOP, capture_output=True, check=True
    )
    found = wire.decode(done.stdout, WATCH_EVENTS)
    assert isinstance(found, TorchProcesses)
    return found.processes[0]


@pytest.fixture(scope="module")
def open_program() -> Iterator[Path]:
    """Build a target that any user may run; only their owner can read pytest's folders."""
    if os.geteuid() != 0:
        pytest.skip("only root can start processes of another user")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield build_target(folder)
    shutil.rmtree(folder)


def test_of_another_user_s_process_the_reason_is_reported(
    open_program: Path, target: ScriptedTarget
) -> None:
    assert open_program
    told = told_to_nobody(target.pid)
    assert told.refused
    assert "it is run by root (uid 0)" in told.reason
    assert f"sudo gpu-workbench watch --pid {target.pid}" in told.advice
    assert "Permission denied" in told.unavailable["rank"]


def test_a_process_that_is_not_dumpable_is_read_by_root_alone(open_program: Path) -> None:
    with running(open_program, user=NOBODY) as target:
        target.make(1)
        target.do("churn", 0, 40)
        target.do("undumpable")
        told = told_to_nobody(target.pid)
        assert told.refused
        assert "it is not dumpable" in told.reason
        assert looked(watching(target.pid))[target.pid].reason == ""
