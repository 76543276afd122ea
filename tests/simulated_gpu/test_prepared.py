"""A simulated GPU that is prepared for a Python runs its torch, and leaves the Python unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.simulated_gpu import place
from tui.rehearsal.device.prepare import SimulatedDevice, prepare_device
from tui.rehearsal.device.settings import DeviceSettings, state_folder

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.skipif(not place.is_simulated(), reason="it prepares a simulated GPU"),
]

TRAINING = """
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
stats = torch.cuda.memory_stats()
peaks = [stats["requested_bytes.all.peak"], stats["reserved_bytes.all.peak"]]
"""
IMPORTS = "import json, re, warnings\nwarnings.simplefilter('ignore')\nimport torch\n"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> SimulatedDevice:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return prepare_device(sys.executable)


def run(device: SimulatedDevice, code: str) -> Any:
    """Return the JSON that a program prints."""
    state = state_folder() / f"test-prepared-{os.getpid()}"
    settings = DeviceSettings(devices=1, total_mib=81_559, context_ms=0)
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SIMULATED_GPU", "LD_"))
    }
    try:
        done = subprocess.run(
            [device.torch.python, "-c", IMPORTS + code],
            env={**own, **device.variables(settings, state, own)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        state.unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_torch_that_is_found_is_the_one_that_is_imported(device: SimulatedDevice) -> None:
    assert device.torch.version == torch.__version__
    assert device.torch.cuda == torch.version.cuda
    assert device.torch.folder == Path(torch.__file__).parent


def test_a_training_takes_the_memory_that_it_takes_on_the_tests_devices(
    device: SimulatedDevice,
) -> None:
    peaks = run(device, TRAINING + "print(json.dumps(peaks))")
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS + TRAINING + "print(json.dumps(peaks))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert peaks == json.loads(done.stdout.splitlines()[-1])


def test_only_prepared_libraries_are_loaded_and_nvml_agrees(device: SimulatedDevice) -> None:
    found, total, used = run(
        device,
        TRAINING
        + """
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
import pynvml
pynvml.nvmlInit()
memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
names = r"/(lib|stand-in-)(cu|nccl|nv)[^/]*$"
print(json.dumps([sorted(m for m in mapped if re.search(names, m)), memory.total, memory.used]))
""",
    )
    assert {Path(path).resolve().parent for path in found} == {device.libraries.resolve()}
    assert total == 81_559 << 20
    assert used > 500 << 20


def test_zeroing_the_devices_memory_takes_none_of_the_hosts(device: SimulatedDevice) -> None:
    grown = run(
        device,
        """
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10

torch.zeros(1, device="cuda")
before = resident()
parts = [torch.empty(63 << 20, dtype=torch.uint8, device="cuda") for _ in range(300)]
for part in parts:
    part.zero_()
torch.cuda.synchronize()
print(resident() - before)
""",
    )
    assert grown < 64 << 20  # of 18.5 GiB


def test_dropout_between_recurrent_layers_keeps_its_generators(device: SimulatedDevice) -> None:
    """Torch keeps them for as long as a process lives, so that it is a process of its own."""
    left = run(
        device,
        """
layer = torch.nn.LSTM(8, 16, 2, dropout=0.5).cuda()
output = layer(torch.randn(5, 3, 8, device="cuda"))[0]
output.sum().backward()
before = torch.cuda.memory_allocated()
del layer, output
torch.cuda.synchronize()
print(json.dumps([before, torch.cuda.memory_allocated()]))
""",
    )
    assert left[0] > left[1] >= 1 << 20


def test_preparing_writes_nothing_into_the_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders = [Path(sys.prefix), Path(torch.__file__).parent / "lib"]
    folders += [Path(torch.__file__).parents[1] / "nvidia" / "cu13"]
    before = [sorted(folder.iterdir()) for folder in folders]
    assert prepare_device(sys.executable).libraries.is_relative_to(tmp_path)
    assert [sorted(folder.iterdir()) for folder in folders] == before
