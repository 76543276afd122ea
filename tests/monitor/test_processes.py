"""Who uses a device: no row is lost for what cannot be known of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor.conftest import Start
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import MIB, Gpu, Proc, Scenario, uuid
from tui.monitor import processes
from tui.monitor.messages import Device, GpuProcess, Sample
from tui.monitor.nvml import Code
from tui.monitor.processes import ListedProcess, ProcessOwners, is_in_pid_namespace

NOBODY = 4_194_305
"""Above the highest PID that Linux gives."""


@pytest.fixture
def worker(scripted_library: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that has mapped a library of the driver, like one that uses a GPU."""
    code = f"import ctypes; ctypes.CDLL({str(scripted_library)!r}); print('', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "--secret", "two words"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def rows_of(monitor: Start, *gpus: Gpu) -> tuple[GpuProcess, ...]:
    (device, *_) = monitor(Scenario(devices=gpus)).until(lambda s: s.devices).devices
    assert device.processes is not None
    return device.processes


def test_a_process_has_its_user_its_command_and_its_start(
    monitor: Start, worker: subprocess.Popen[bytes]
) -> None:
    (row,) = rows_of(monitor, Gpu(processes=(Proc(pid=worker.pid, memory=512 * MIB),)))

    assert (row.pid, row.memory, row.kind) == (worker.pid, 512 * MIB, "compute")
    assert row.user == psutil.Process(worker.pid).username()
    assert row.command is not None
    assert row.command.endswith("--secret ***")
    assert row.started_at == psutil.Process(worker.pid).create_time()
    assert row.parent is not None
    assert row.parent.pid == os.getpid()
    assert row.unavailable.keys() <= {"sm_percent", "cpu_percent"}


def test_t16_memory_that_cannot_be_is_absent_and_the_row_stays(monitor: Start) -> None:
    gpu = Gpu(
        total=1000 * MIB,
        used=10 * MIB,
        processes=(
            Proc(pid=NOBODY, memory=None),
            Proc(pid=NOBODY + 1, memory=1001 * MIB),
            Proc(pid=NOBODY + 2, memory=900 * MIB),  # more than is used: shown as it is given
            Proc(pid=NOBODY + 3, memory=2**64 - 2),
            Proc(pid=NOBODY + 4, memory=0),
        ),
    )
    rows = rows_of(monitor, gpu)

    assert [row.memory for row in rows] == [None, None, 900 * MIB, None, 0]
    assert rows[0].unavailable["memory"].startswith("the driver does not give it")
    assert "more than the device has" in rows[1].unavailable["memory"]
    assert "memory" not in rows[2].unavailable


def test_t18_a_process_that_is_not_here_keeps_its_row(monitor: Start) -> None:
    (row,) = rows_of(monitor, Gpu(processes=(Proc(pid=NOBODY, memory=MIB),)))

    assert (row.pid, row.memory) == (NOBODY, MIB)
    assert row.unavailable["user"].startswith("no such process:")
    assert row.unavailable["command"] == row.unavailable["user"]
    assert row.started_at is None


def test_t18_a_zombie_keeps_its_row_and_its_user(monitor: Start) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.read() == b""  # it has ended, and is not waited for
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    (row,) = rows_of(monitor, Gpu(processes=(Proc(pid=child.pid, memory=MIB),)))
    child.communicate()

    assert row.memory == MIB
    assert row.user == psutil.Process().username()
    assert row.command is None
    assert row.unavailable["command"].startswith("zombie")


class Refused(psutil.Process):
    """A process that another user may not look at."""

    def cmdline(self) -> list[str]:
        raise psutil.AccessDenied(self.pid)


def test_t18_what_is_refused_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "Process", Refused)
    owner = ProcessOwners(own_pids=False).find_owner(os.getpid(), listed_at=2**40)

    assert owner.user is not None
    assert owner.unavailable == {"command": "needs root: not allowed to look at this process"}


def test_t18_a_pid_that_started_after_it_was_listed_is_another_process() -> None:
    owner = ProcessOwners(own_pids=False).find_owner(os.getpid(), listed_at=1.0)

    assert (owner.user, owner.command, owner.started_at) == (None, None, None)
    assert "reused" in owner.unavailable["user"]


def test_t18_a_pid_that_is_reused_is_read_anew(
    worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = ProcessOwners(own_pids=False)
    first = owners.find_owner(worker.pid, listed_at=2**40)
    assert owners.find_owner(worker.pid, listed_at=2**40) is first

    started_at = first.started_at
    assert started_at is not None
    monkeypatch.setattr(psutil.Process, "create_time", lambda _self: started_at + 5)

    again = owners.find_owner(worker.pid, listed_at=2**40)
    assert again is not first
    assert again.started_at == started_at + 5


def test_t19_in_a_container_a_pid_is_believed_only_of_a_process_that_uses_the_driver(
    worker: subprocess.Popen[bytes],
) -> None:
    owners = ProcessOwners(own_pids=True)

    assert owners.find_owner(worker.pid, listed_at=2**40).unavailable == {}
    stranger = owners.find_owner(os.getpid(), listed_at=2**40)
    assert (stranger.user, stranger.command, stranger.started_at) == (None, None, None)
    assert "the PID is the host's" in stranger.unavailable["user"]
    absent = owners.find_owner(NOBODY, listed_at=2**40)
    assert "in a container, NVML lists the host's PIDs" in absent.unavailable["user"]


def test_whether_pids_are_our_own_is_known() -> None:
    assert is_in_pid_namespace() in (True, False)


def test_t21_a_pid_in_several_lists_is_one_row_with_the_largest_memory(monitor: Start) -> None:
    gpu = Gpu(
        processes=(
            Proc(pid=NOBODY, memory=300 * MIB, kind="compute"),
            Proc(pid=NOBODY, memory=500 * MIB, kind="graphics"),
            Proc(pid=NOBODY, memory=None, kind="mps"),
            Proc(pid=NOBODY + 1, memory=MIB, kind="graphics"),
        )
    )
    rows = rows_of(monitor, gpu)

    assert [(row.pid, row.memory, row.kind) for row in rows] == [
        (NOBODY, 500 * MIB, "compute+graphics+mps"),
        (NOBODY + 1, MIB, "graphics"),
    ]


def test_t21_a_pid_on_two_devices_has_a_row_on_each(monitor: Start) -> None:
    gpus = [
        Gpu(uuid=uuid(number), processes=(Proc(pid=NOBODY, memory=(number + 1) * MIB),))
        for number in range(2)
    ]
    scenario = Scenario(devices=tuple(gpus))
    sample = monitor(scenario).until(lambda s: len(s.devices) == 2)

    def memory(device: Device) -> int | None:
        assert device.processes is not None
        return device.processes[0].memory

    assert [memory(device) for device in sample.devices] == [MIB, 2 * MIB]


def shows(count: int) -> Callable[[Sample], bool]:
    return lambda sample: len(sample.devices[0].processes or ()) == count


def test_t17_the_newest_sample_says_how_busy_a_process_keeps_the_device(monitor: Start) -> None:
    gpu = Gpu(processes=(Proc(pid=NOBODY, sm=87), Proc(pid=NOBODY + 1), Proc(NOBODY + 2, sm=0)))
    rows = rows_of(monitor, gpu)

    assert [row.sm_percent for row in rows] == [87, None, 0]
    assert rows[1].unavailable["sm_percent"] == processes.NO_SAMPLE
    assert "sm_percent" not in rows[2].unavailable


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        (Scenario((Gpu(processes=(Proc(pid=NOBODY),)),)), processes.NO_SAMPLE),
        (
            Scenario((Gpu(processes=(Proc(pid=NOBODY, sm=40),), sample_age_ms=60_000),)),
            processes.NO_SAMPLE,
        ),
        (
            Scenario((Gpu(processes=(Proc(pid=NOBODY, sm=40),)),)).returns(
                "nvmlDeviceGetProcessUtilization", value=37_100
            ),
            processes.NO_SAMPLE,
        ),
        (
            Scenario((Gpu(mig=True, processes=(Proc(pid=NOBODY, sm=40),)),)),
            "not offered under MIG",
        ),
        (
            Scenario((Gpu(processes=(Proc(pid=NOBODY, sm=40),)),)).returns(
                "nvmlDeviceGetProcessUtilization", code=Code.NO_PERMISSION
            ),
            "needs root: the driver refuses it to this user",
        ),
    ],
    ids=["idle", "outdated", "above 100", "MIG", "refused"],
)
def test_t17_what_is_no_sample_of_now_is_unknown_with_its_reason(
    monitor: Start, scenario: Scenario, reason: str
) -> None:
    (row, *_) = monitor(scenario).until(lambda s: s.devices).devices[0].processes or ()

    assert (row.pid, row.sm_percent) == (NOBODY, None)
    assert row.unavailable["sm_percent"] == reason


def test_a_process_has_its_processor_time_and_its_host_memory(
    monitor: Start, scripted_library: Path
) -> None:
    code = (
        f"import ctypes; ctypes.CDLL({str(scripted_library)!r}); print('', flush=True)\n"
        "while True: pass"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        gpus = [Gpu(uuid=uuid(at), processes=(Proc(pid=child.pid),)) for at in range(2)]
        process = monitor(Scenario(devices=tuple(gpus)))

        def known(sample: Sample) -> bool:
            rows = [row for device in sample.devices for row in device.processes or ()]
            return len(rows) == 2 and all(row.cpu_percent for row in rows)

        one, other = process.until(known).devices
        child.kill()
    (row,), (again,) = one.processes or (), other.processes or ()
    assert row.host_memory is not None
    assert row.host_memory > MIB
    # Looked at once for both devices: the second look would have no time between.
    assert (row.cpu_percent, row.host_memory) == (again.cpu_percent, again.host_memory)


def test_the_load_of_a_pid_that_is_reused_needs_two_looks_again() -> None:
    owners = ProcessOwners(own_pids=False)
    pid, owner = os.getpid(), owners.find_owner(os.getpid(), listed_at=2**40)
    assert owner.started_at is not None
    assert owners.read_load(pid, owner).cpu_percent is None
    while (load := owners.read_load(pid, owner)).cpu_percent is None:
        time.sleep(0.01)
    assert load.unavailable == {}

    reused = owners.read_load(pid, replace(owner, started_at=owner.started_at + 5))
    assert reused.cpu_percent is None
    assert "two samples" in reused.unavailable["cpu_percent"]


def test_an_unseen_process_has_no_load_and_says_why() -> None:
    owners = ProcessOwners(own_pids=True)
    load = owners.read_load(os.getpid(), owners.find_owner(os.getpid(), listed_at=2**40))
    assert (load.cpu_percent, load.resident) == (None, None)
    assert "the PID is the host's" in load.unavailable["host_memory"]


def test_the_list_follows_the_processes(monitor: Start, scripted_nvml: ScriptedNvml) -> None:
    process = monitor(Scenario())
    process.until(lambda s: s.devices)

    def rows(count: int) -> Scenario:
        listed = tuple(Proc(pid=NOBODY + number, memory=MIB) for number in range(count))
        return Scenario(devices=(Gpu(processes=listed),))

    for count in (20, 1, 0):
        scripted_nvml.change(rows(count))
        process.until(shows(count))


def test_a_command_is_text_whatever_its_bytes_and_its_length(
    worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["a", "\udcff", "x" * 10_000]
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _self: words)
    command = ProcessOwners(own_pids=False).find_owner(worker.pid, listed_at=2**40).command

    assert command is not None
    assert command.startswith("a \ufffd xxx")
    assert command.endswith("x…")
    assert len(command) == processes.LONGEST_COMMAND


entries = st.lists(
    st.builds(
        ListedProcess,
        pid=st.integers(NOBODY, NOBODY + 3),
        kind=st.sampled_from(["compute", "graphics", "mps"]),
        memory=st.one_of(st.none(), st.integers(0, 100), st.just(2**64 - 1)),
    )
)


@given(entries, st.one_of(st.none(), st.integers(0, 100)))
def test_every_pid_has_one_row_and_no_memory_is_invented(
    listed: list[ListedProcess], total: int | None
) -> None:
    rows = processes.build_rows(
        listed, ProcessOwners(own_pids=False), listed_at=2**40, total=total, mig=False, busy={}
    )

    assert [row.pid for row in rows] == list(dict.fromkeys(entry.pid for entry in listed))
    for row in rows:
        given_for_it = [entry.memory for entry in listed if entry.pid == row.pid]
        assert (row.memory is None) == ("memory" in row.unavailable)
        if row.memory is not None:
            assert row.memory in given_for_it
            assert row.memory != 2**64 - 1
            assert total is None or row.memory <= total
