"""The simulated GPU agrees with itself: torch's allocator, CUDA and NVML tell of one device."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulated_gpu import libraries as simulated
from tests.simulated_gpu import place
from tui.rehearsal.device.settings import DeviceSettings

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not place.is_simulated(), reason="it asks about the simulator itself"),
]

MIB = 2**20
SETTINGS = DeviceSettings(devices=1)
LOOK = """
import json, os, torch, pynvml
pynvml.nvmlInit()
def look(index=0):
    device = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    free, total = torch.cuda.mem_get_info(index)
    return {
        "used": memory.used, "nvml_free": memory.free, "nvml_reserved": memory.reserved,
        "free": free, "total": total, "pids": {p.pid: p.usedGpuMemory for p in processes},
        "allocated": torch.cuda.memory_allocated(index), "held": torch.cuda.memory_reserved(index),
        "own": os.getpid(),
    }
"""


def said(code: str, state: Path, settings: DeviceSettings = SETTINGS, **more: str) -> Any:
    """Return what a process on simulated GPUs prints as JSON."""
    libraries = simulated.libraries()
    assert libraries is not None
    done = subprocess.run(
        [sys.executable, "-c", LOOK + code],
        env={**simulated.environment(libraries, settings, state), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=["", "expandable_segments:True", "backend:cudaMallocAsync"])
def looks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Before an allocation, while it lives, and after the cache is emptied; by its MiB."""
    code = """
def three(mib):
    a = torch.zeros(1, device="cuda"); before = look()
    b = torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda"); held = look()
    del a, b; torch.cuda.empty_cache(); return before, held, look()
print(json.dumps({mib: three(mib) for mib in (1, 3, 20, 100, 1000)}))
"""
    state = tmp_path_factory.mktemp("simulated") / "state"
    return said(code, state, PYTORCH_ALLOC_CONF=request.param)


@pytest.mark.parametrize("mib", [1, 3, 20, 100, 1000])
def test_what_torch_reserves_is_what_nvml_and_cuda_see(mib: int, looks: Any) -> None:
    before, held, after = looks[str(mib)]
    grown = held["held"] - before["held"]
    assert grown >= 0
    assert held["allocated"] - before["allocated"] == mib * MIB
    assert held["used"] - before["used"] == grown
    assert before["free"] - held["free"] == grown
    assert held["free"] == held["nvml_free"]
    assert held["used"] + held["nvml_free"] + held["nvml_reserved"] == SETTINGS.total_mib * MIB
    own = str(held["own"])
    assert held["pids"][own] == held["held"] + SETTINGS.context_mib * MIB
    assert after["used"] == (SETTINGS.base_mib + SETTINGS.context_mib) * MIB
    assert after["held"] == 0


def test_memory_of_a_process_that_was_killed_is_free_again(tmp_path: Path) -> None:
    code = """
import signal, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", "import torch; a = torch.empty(2**30, dtype=torch.uint8, device='cuda');"
     "print(flush=True); import time; time.sleep(100)"], stdout=subprocess.PIPE)
child.stdout.readline(); torch.zeros(1, device="cuda"); beside = look()
child.kill(); child.wait(); print(json.dumps([beside, look(), child.pid]))
"""
    beside, alone, pid = said(code, tmp_path / "state")
    assert beside["pids"][str(pid)] == (1024 + SETTINGS.context_mib) * MIB
    assert beside["used"] - alone["used"] == beside["pids"][str(pid)]
    assert list(alone["pids"]) == [str(alone["own"])]


def test_a_fork_of_a_process_that_used_cuda_cannot_use_it(tmp_path: Path) -> None:
    code = """
torch.zeros(1, device="cuda")
reading, writing = os.pipe()
if not os.fork():
    try: torch.zeros(1, device="cuda"); text = "it worked"
    except RuntimeError as error: text = str(error)
    os.write(writing, text.encode()); os._exit(0)
print(json.dumps(os.read(reading, 1000).decode()))
"""
    assert "Cannot re-initialize CUDA in forked subprocess" in said(code, tmp_path / "state")


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("0,1,2", 3),
        ("1", 1),
        ("2,0", 2),
        ("0,7,1", 1),
        ("", 0),
        ("GPU-51a4d170-0000-4000-8000-000000000002", 1),
    ],
)
def test_visible_devices_are_those_that_are_named_up_to_the_first_unknown(
    visible: str, names: int, tmp_path: Path
) -> None:
    settings = dataclasses.replace(SETTINGS, devices=3)
    code = """
print(json.dumps([torch.cuda.get_device_properties(i).pci_bus_id
                  for i in range(torch.cuda.device_count())]))
"""
    buses = said(code, tmp_path / "state", settings, CUDA_VISIBLE_DEVICES=visible)
    assert len(buses) == names
    if visible == "2,0":
        assert buses == [0x1A, 0x18]


def test_a_mig_instance_is_one_device_with_its_own_share(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, mig=4)
    code = """
device = pynvml.nvmlDeviceGetHandleByIndex(0)
try: pynvml.nvmlDeviceGetMemoryInfo(device); parent = "told"
except pynvml.NVMLError as error: parent = type(error).__name__
instances = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device, i) for i in range(4)]
print(json.dumps([torch.cuda.device_count(), torch.cuda.mem_get_info()[1], parent,
                  [pynvml.nvmlDeviceGetUUID(one)[:4] for one in instances]]))
"""
    count, total, parent, uuids = said(code, tmp_path / "state", settings)
    assert count == 1
    assert total == (SETTINGS.total_mib * MIB // 4) - (SETTINGS.reserved_mib * MIB // 4)
    assert parent == "NVMLError_NoPermission"
    assert uuids == ["MIG-"] * 4


def test_pinned_memory_is_the_hosts_and_resident(tmp_path: Path) -> None:
    code = """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
torch.zeros(1, device="cuda"); before, mine = look(), resident()
a = torch.empty(256 * 2**20, dtype=torch.uint8, pin_memory=True)
print(json.dumps([before["used"], look()["used"], resident() - mine, a.is_pinned()]))
"""
    before, after, resident, pinned = said(code, tmp_path / "state")
    assert after == before
    assert resident >= 250 * MIB
    assert pinned


def test_time_is_virtual_and_in_order(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, memory_gb_s=1)
    code = """
a = torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")
first, second, third = (torch.cuda.Event(enable_timing=True) for _ in range(3))
first.record(); a.fill_(1); second.record(); a.fill_(2); a.fill_(3); third.record()
done_at_once = third.query(); torch.cuda.synchronize()
print(json.dumps([done_at_once, first.elapsed_time(second), second.elapsed_time(third)]))
"""
    done_at_once, one, two = said(code, tmp_path / "state", settings)
    assert not done_at_once
    assert one > 50  # milliseconds of the device, though nothing is computed
    assert two == pytest.approx(2 * one, rel=0.1)


def test_a_command_runs_on_it_by_the_module(tmp_path: Path) -> None:
    options = ["--devices", "3"]
    command = ["python", "-m", "tui", "devices", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulated_gpu", *options, *command],
        env={**os.environ, "GPU_WORKBENCH_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    devices = json.loads(done.stdout)["devices"]
    assert [device["torch"] for device in devices[:3]] == ["cuda:0", "cuda:1", "cuda:2"]
    assert all("simulated" in device["name"] for device in devices[:3])
