"""The machine around the devices, and what a container may use of it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.child.inside import Cgroup
from tui.monitor import monitor

GIB = 1024**3


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def cgroup(root: Path, membership: str, files: dict[str, str]) -> Cgroup:
    write(root, {f"sys/{name}": text for name, text in files.items()})
    (root / "membership").write_text(membership)
    return Cgroup(root / "sys", root / "membership")


V2 = {
    "a/cpu.max": "400000 100000\n",
    "a/b/cpu.max": "max 100000\n",
    "a/b/memory.max": "max\n",
    "a/b/memory.current": "7\n",
    "a/memory.max": f"{8 * GIB}\n",
    "a/memory.current": f"{3 * GIB}\n",
    "a/memory.stat": f"anon 1\ninactive_file {GIB}\n",
}


def test_version_2_counts_the_narrowest_ancestor(tmp_path: Path) -> None:
    group = cgroup(tmp_path, "0::/a/b\n", V2)

    assert group.cpus() == 4
    limit = group.memory()
    assert limit is not None
    assert (limit.total, limit.used) == (8 * GIB, 2 * GIB)


def test_version_2_in_a_container_is_the_mount_itself(tmp_path: Path) -> None:
    files = {"cpu.max": "150000 100000", "memory.max": str(GIB), "memory.current": "5"}
    group = cgroup(tmp_path, "0::/\n", files)

    assert group.cpus() == 1.5
    limit = group.memory()
    assert limit is not None
    assert (limit.total, limit.used) == (GIB, 5)


def test_version_1_in_a_container_whose_path_is_the_hosts(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/cpu.cfs_quota_us": "250000",
        "cpu,cpuacct/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": str(2 * GIB),
        "memory/memory.usage_in_bytes": str(GIB),
        "memory/memory.stat": "total_inactive_file 100\n",
    }
    group = cgroup(tmp_path, "5:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n", files)

    assert group.cpus() == 2.5
    limit = group.memory()
    assert limit is not None
    assert (limit.total, limit.used) == (2 * GIB, GIB - 100)


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        pytest.param("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}, id="v2"),
        pytest.param(
            "4:memory:/\n1:cpu:/\n",
            {
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/memory.usage_in_bytes": "1",
            },
            id="v1",
        ),
        pytest.param("", {}, id="no-cgroups"),
        pytest.param("nonsense\n", {"cpu.max": "nonsense", "memory.max": "x"}, id="nonsense"),
    ],
)
def test_where_nothing_is_limited_there_is_no_limit(
    tmp_path: Path, membership: str, files: dict[str, str]
) -> None:
    group = cgroup(tmp_path, membership, files)

    assert group.cpus() is None
    assert group.memory() is None


def test_a_limit_below_the_machines_memory_is_the_total(tmp_path: Path) -> None:
    files = {
        "memory.max": str(64 * 1024**2),
        "memory.current": str(1024**2),
        "cpu.max": "1000 9999",
    }
    reader = monitor.HostReader(cgroup(tmp_path, "0::/\n", files))

    read = reader.read()

    assert read.memory.total == 64 * 1024**2
    assert read.memory.used == 1024**2
    assert read.memory.available == 63 * 1024**2
    assert read.cpu.cores_usable == 1
    assert reader.machine_memory == psutil.virtual_memory().total


def test_a_limit_above_the_machines_memory_is_none(tmp_path: Path) -> None:
    files = {"memory.max": str(2**50), "memory.current": "1"}
    memory = monitor.HostReader(cgroup(tmp_path, "0::/\n", files)).read().memory

    assert memory.total == psutil.virtual_memory().total
    assert memory.used + memory.available == memory.total


@given(st.integers(1, 512), st.one_of(st.none(), st.floats(0.001, 1000)))
def test_usable_cores_are_at_least_one_and_at_most_all(cores: int, quota: float | None) -> None:
    usable = monitor.count_usable_cores(cores, quota)

    assert usable >= 1
    assert quota is None or usable < quota + 1


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor : 0\nmodel name\t: AMD  EPYC 9654\n", "AMD EPYC 9654"),
        ("processor : 0\nmodel\t\t: 17\nmodel name : X\n", "X"),
    ],
)
def test_the_cpu_is_called_as_the_kernel_calls_it(tmp_path: Path, cpuinfo: str, model: str) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)

    assert monitor.read_cpu_model(tmp_path / "cpuinfo") == model


def test_a_cpu_without_a_name_is_called_by_its_kind(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nCPU part : 0xd4f\n")

    assert monitor.read_cpu_model(tmp_path / "cpuinfo")
    assert monitor.read_cpu_model(tmp_path / "none")


@pytest.mark.parametrize("error", [FileNotFoundError("x"), NotImplementedError("x"), None])
def test_a_frequency_that_is_not_given_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    def frequency() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(psutil, "cpu_freq", frequency)
    cpu = monitor.HostReader().read().cpu

    assert cpu.frequency_mhz is None
    assert cpu.unavailable["frequency_mhz"].startswith("not given by this system")


def test_the_first_load_needs_a_second_sample() -> None:
    cpu = monitor.HostReader().read().cpu

    assert cpu.load_percent is None
    assert "two samples" in cpu.unavailable["load_percent"]


def test_a_watched_process_that_may_not_be_looked_at_has_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: psutil.Process) -> None:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refused)
    row = monitor.read_watched_process(psutil.Process().pid)

    assert row.resident
    assert row.unique is None
    assert row.unavailable == {"unique": "needs root: not allowed to look at this process"}


@pytest.mark.parametrize(
    ("membership", "files", "count"),
    [
        ("0::/a/b\n", {"a/b/memory.events": "oom 4\noom_kill 3\noom_group_kill 0\n"}, 3),
        ("0::/hidden\n", {"memory.events": "oom 1\noom_kill 1\n"}, 1),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.oom_control": "under_oom 0\noom_kill 2\n"}, 2),
        # A kernel before 4.13 does not count.
        ("4:memory:/a\n", {"memory/a/memory.oom_control": "oom_kill_disable 0\n"}, None),
        ("0::/\n", {}, None),
    ],
)
def test_the_oom_killer_s_processes_are_counted_by_the_nearest_group(
    membership: str, files: dict[str, str], count: int | None, tmp_path: Path
) -> None:
    assert cgroup(tmp_path, membership, files).oom_kills() == count
