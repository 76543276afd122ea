"""The stand-in for psutil says what psutil says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.waiting import until
from tui.hosts import procfs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def child() -> Iterator[int]:
    argv = [sys.executable, "-c", "print(flush=True); input()", "a b", ""]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_process_reads_as_with_psutil(child: int) -> None:
    ours, theirs = procfs.Process(child), psutil.Process(child)
    assert ours.create_time() == pytest.approx(theirs.create_time(), abs=0.02)
    assert ours.name() == theirs.name()
    assert ours.cmdline() == theirs.cmdline()
    assert ours.username() == theirs.username()
    assert ours.ppid() == theirs.ppid() == os.getpid()
    assert [each.pid for each in ours.parents()] == [each.pid for each in theirs.parents()]
    assert ours.memory_info().rss == theirs.memory_info().rss
    full, expected = ours.memory_full_info(), theirs.memory_full_info()
    assert full.uss == pytest.approx(expected.uss, rel=0.01)
    with ours.oneshot():
        assert ours.cpu_times().user == pytest.approx(theirs.cpu_times().user, abs=0.02)


def test_a_process_that_has_ended_is_a_zombie_and_then_none() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    seen = procfs.Process(process.pid)

    def is_zombie() -> bool:
        try:
            seen.cmdline()
        except procfs.ZombieProcess:
            return True
        return False

    until(is_zombie)
    process.wait()
    with pytest.raises(procfs.NoSuchProcess):
        seen.memory_info()
    with pytest.raises(procfs.NoSuchProcess):
        procfs.Process(process.pid)


def test_the_machine_reads_as_with_psutil() -> None:
    ours, theirs = procfs.virtual_memory(), psutil.virtual_memory()
    assert ours.total == theirs.total
    assert ours.available == pytest.approx(theirs.available, rel=0.2)
    assert procfs.cpu_count() == psutil.cpu_count()
    assert os.getpid() in [process.pid for process in procfs.process_iter()]
    assert 0 <= procfs.cpu_percent() <= 100
    frequency = procfs.cpu_freq()
    assert frequency is None or frequency.current > 0


def test_each_error_is_one_that_the_monitor_expects() -> None:
    """The monitor catches psutil's classes by these names, the most special first."""
    for name in ("NoSuchProcess", "ZombieProcess", "AccessDenied"):
        assert issubclass(getattr(procfs, name), procfs.Error)
        assert issubclass(getattr(psutil, name), psutil.Error)
    assert issubclass(procfs.ZombieProcess, procfs.NoSuchProcess)
