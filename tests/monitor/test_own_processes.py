"""Every process that the program started is known as its own, however deep and however orphaned."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.monitor.conftest import Start
from tests.monitor.process_family import LEAF, family
from tests.nvml.scenario import MIB, Gpu, Proc, Scenario
from tui.core.child.launch import launch, own_command
from tui.monitor.messages import Sample
from tui.monitor.monitor import HostProcessReader
from tui.monitor.processes import ProcessOwners
from tui.watch.runs import start
from workloads import ENTRY

LATER = 2.0**40


def ours(pid: int, owners: ProcessOwners | None = None) -> bool:
    owners = owners or ProcessOwners(own_pids=False, program=os.getpid(), boot_text="")
    return owners.find_owner(pid, LATER).ours


def test_what_the_program_started_and_what_that_started_is_ours() -> None:
    with family(own_session=False, parent_stays=True) as (child, leaf):
        assert ours(child.pid)
        assert ours(leaf)


def test_a_rank_with_a_session_of_its_own_is_ours_as_torchrun_starts_it() -> None:
    with family(own_session=True, parent_stays=True) as (_, leaf):
        assert os.getsid(leaf) == leaf
        assert ours(leaf)


def test_one_whose_parent_has_ended_is_ours_while_its_session_s_leader_lives() -> None:
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LEAF!r}])"
    middle = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {code!r}], check=True)
print("", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", middle],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        (orphan,) = (
            each.pid
            for each in psutil.process_iter()
            if each.pid != leader.pid and _session(each.pid) == leader.pid
        )
        assert psutil.Process(orphan).ppid() != leader.pid
        assert ours(orphan)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def test_one_that_was_known_as_ours_stays_so_when_its_parent_ends() -> None:
    owners = ProcessOwners(own_pids=False, program=os.getpid(), boot_text="")
    with family(own_session=True, parent_stays=True) as (child, leaf):
        assert ours(leaf, owners)
        child.kill()
        child.wait(60)
        assert ours(leaf, owners)
        psutil.Process(leaf).kill()


def test_others_are_not_ours() -> None:
    assert not ours(1)
    assert not ours(os.getppid())
    with family(own_session=True, parent_stays=False) as (_, leaf):
        while psutil.Process(leaf).ppid() == os.getpid():
            time.sleep(0.01)
        assert not ours(leaf)


def test_a_program_s_own_processes_are_not_those_of_a_program_beside_it() -> None:
    with family(own_session=False, parent_stays=True) as (child, leaf):
        beside = ProcessOwners(own_pids=False, program=child.pid, boot_text="")
        assert ours(leaf, beside)
        assert not ours(os.getpid(), beside)


def test_a_command_that_the_user_runs_under_the_watch_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    owners = ProcessOwners(own_pids=False, program=os.getpid(), boot_text=ENTRY)
    code = "import time; time.sleep(100)"
    _run, training = start.begin([sys.executable, "-c", code], None)
    try:
        assert psutil.Process(training.pid).parents()[1].pid == os.getpid()
        assert not ours(training.pid, owners)
    finally:
        training.kill()
        training.wait()
    with launch(own_command("workloads")) as runner:
        assert ours(runner.pid, owners)
        runner.kill()


def test_a_shell_over_the_same_connection_is_not_ours() -> None:
    # With ControlMaster, the sshd that has our children has those of the user's terminal as well.
    owners = ProcessOwners(own_pids=False, program=os.getpid(), boot_text="# boot")
    with (
        family(own_session=True, parent_stays=True, code=f"{LEAF}  # boot") as (runner, rank),
        family(own_session=False, parent_stays=True) as (shell, training),
    ):
        assert ours(runner.pid, owners)
        assert ours(rank, owners)
        assert not ours(shell.pid, owners)
        assert not ours(training, owners)


def test_the_monitor_tells_our_rows_of_a_gpu_from_strangers(
    monitor: Start, scripted_library: Path
) -> None:
    # In a container only a process that has the driver mapped is believed to be the one meant.
    code = f"import ctypes; ctypes.CDLL({str(scripted_library)!r}); {LEAF}"

    def listed(*pids: int) -> Scenario:
        rows = tuple(Proc(pid=pid, memory=MIB) for pid in pids)
        return Scenario(devices=(Gpu(processes=rows),))

    def all_are_known(sample: Sample) -> bool:
        return all(
            row.started_at is not None
            for device in sample.devices
            for row in device.processes or ()
        )

    with (
        family(own_session=True, parent_stays=True, code=f"{code}  # {ENTRY}") as (_, rank),
        family(own_session=True, parent_stays=True, code=code) as (_, training),
        family(own_session=True, parent_stays=False, code=code) as (_, stranger),
    ):
        process = monitor(listed(rank, training, stranger))
        sample = process.until(lambda s: s.devices and all_are_known(s))
        assert {row.pid: row.ours for row in sample.devices[0].processes or ()} == {
            rank: True,
            training: False,
            stranger: False,
        }


def test_the_list_of_the_host_s_processes_tells_ours_too() -> None:
    rows = {row.pid: row for row in HostProcessReader().read().rows}
    parent = rows.get(os.getppid())
    # These tests may run beside forty larger processes; what is listed is told right.
    assert parent is None or parent.ours
    assert 1 not in rows or os.getppid() == 1 or not rows[1].ours
