"""NVML's devices and torch's: hidden, reordered, or without a torch that can use them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.screens.helpers import NOW, gpu, sample
from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from tui.devices.state.devices import pair
from tui.devices.views.device_detail import device_detail
from workloads.measure import environment
from workloads.protocol.results import TorchDevice

CPU = TorchDevice("cpu", "EPYC")
UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def cuda_build(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Torch as if built for CUDA, with a driver that shows it no device."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def told() -> str:
    """Return the reason in the row of a device that NVML lists and torch does not see."""
    unavailable: dict[str, str] = {}
    devices = environment.all_devices(unavailable)
    assert [device.id for device in devices] == ["cpu"]
    view = pair((gpu(0),), devices, unavailable["devices"])[0]
    assert view.unpaired is not None
    assert dict(device_detail(view, sample(gpu(0)), NOW))["torch name"].endswith(view.unpaired)
    return view.unpaired


@pytest.mark.parametrize("value", ["", "-1"])
def test_t3_devices_that_are_hidden_are_reported_to_be_hidden(
    cuda_build: pytest.MonkeyPatch, value: str
) -> None:
    cuda_build.setenv("CUDA_VISIBLE_DEVICES", value)
    assert told() == f"torch sees no CUDA device: CUDA_VISIBLE_DEVICES={value!r} hides them"


def test_t29_a_driver_that_cuda_cannot_start_is_reported_in_its_own_words(
    cuda_build: pytest.MonkeyPatch,
) -> None:
    def fails() -> int:
        raise RuntimeError("CUDA driver initialization failed, error 999\nand more")

    cuda_build.setattr(torch.cuda, "device_count", fails)
    assert told() == "CUDA could not start: CUDA driver initialization failed, error 999"


def test_t29_a_driver_that_cuda_cannot_start_without_a_word_is_reported_by_the_error(
    cuda_build: pytest.MonkeyPatch,
) -> None:
    def fails() -> int:
        raise AssertionError

    cuda_build.setattr(torch.cuda, "device_count", fails)
    assert told() == "CUDA could not start: AssertionError"


def test_t29_a_driver_that_is_too_old_is_asked_about(cuda_build: pytest.MonkeyPatch) -> None:
    assert cuda_build
    assert "new enough for CUDA 13.0?" in told()


def test_t29_a_torch_without_cuda_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert told() == "no CUDA devices: this torch is built without CUDA"


@VARIANT
def test_t29_without_torch_the_devices_are_shown_all_the_same(
    scripted_nvml: ScriptedNvml, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\nexit 1\n")
    python.chmod(0o755)
    variables = {**scripted_nvml.env(busy_box(2)), "GPU_WORKBENCH_STATE": str(tmp_path / "state")}
    argv = (sys.executable, "-m", "tui", "--python", str(python))
    with Terminal(argv, 120, 40, variables) as terminal:
        text = terminal.until_shows("cuda:1", "the runner ended: exit status 1")
        assert len(re.findall(r"\d+°C +▴?\d+ W", text)) == 2


@pytest.mark.parametrize(
    ("nvml", "torchs"),
    [
        pytest.param(f"GPU-{UUID}", f"GPU-{UUID}", id="T22-uuid"),
        pytest.param(f"GPU-{UUID}", UUID.upper(), id="T22-bare-uuid"),
        pytest.param(f"MIG-{UUID}", f"GPU-{UUID}", id="T22-mig-as-torch-tells-it"),
        pytest.param(f"MIG-{UUID}", f"MIG-{UUID}", id="T22-mig"),
    ],
)
def test_what_cuda_visible_devices_chose_and_reordered_is_paired_by_uuid(
    nvml: str, torchs: str
) -> None:
    # The chosen one is the last for NVML and the first for torch; its index proves nothing.
    listed = (gpu(0), gpu(1), gpu(2, id=nvml))
    views = pair(listed, (TorchDevice("cuda:0", "NVIDIA H200", torchs), CPU))
    assert [view.torch for view in views] == [None, None, "cuda:0", "cpu"]
    assert views[2].key == nvml
    assert all("CUDA_VISIBLE_DEVICES" in (view.unpaired or "") for view in views[:2])
