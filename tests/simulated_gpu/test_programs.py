"""Small programs of what trainings do work behind the device that a rehearsal prepares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.simulated_gpu import place
from tui.rehearsal.cards import CARDS, find_card
from tui.rehearsal.device.prepare import SimulatedDevice, prepare_device
from tui.rehearsal.device.settings import state_folder

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.skipif(not place.is_simulated(), reason="it prepares a simulated GPU"),
    pytest.mark.timeout(400),
]
SCRIPT = Path(__file__).with_name("programs.py")
TOGETHER = (
    "attention_in_bfloat16",
    "attention_with_a_mask",
    "fourier_transforms",
    "recurrent_layers",
    "linear_algebra",
    "convolutions",
    "training_under_autocast",
    "nested_tensors",
    "fp8_products",
    "large_pinned_memory",
    "offloaded_activations",
    "cuda_graphs",
    "profiler",
    "peers",
    "out_of_memory",
)
"""Programs that one process runs one after the other, on two H100s."""
ON_EACH_CARD = (
    "attention_in_bfloat16",
    "recurrent_layers",
    "linear_algebra",
    "convolutions",
    "training_under_autocast",
    "cuda_graphs",
)
"""Programs whose kernels torch chooses by the card's capability."""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> SimulatedDevice:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return prepare_device(sys.executable)


def run(
    device: SimulatedDevice, card: str, names: tuple[str, ...], variables: Mapping[str, str] = {}
) -> dict[str, str]:
    """Return what became of each program, on two cards of a kind."""
    state = state_folder() / f"test-programs-{os.getpid()}"
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SIMULATED_GPU", "LD_", "PYTORCH_"))
    }
    settings = find_card(card).settings(2)
    environment = {**own, **device.variables(settings, state, own), **variables}
    try:
        done = subprocess.run(
            [device.torch.python, str(SCRIPT), *names],
            env=environment,
            capture_output=True,
            text=True,
            timeout=380,
            check=False,
        )
    finally:
        state.unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def all_work(names: tuple[str, ...]) -> dict[str, str]:
    return dict.fromkeys(names, "ok")


def test_what_trainings_do_works(device: SimulatedDevice) -> None:
    assert run(device, "h100", TOGETHER) == all_work(TOGETHER)


def test_the_asynchronous_allocator_works(device: SimulatedDevice) -> None:
    names = ("asynchronous_allocator", "out_of_memory")
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    assert run(device, "h100", names, variables) == all_work(names)


def test_expandable_segments_work(device: SimulatedDevice) -> None:
    names = ("expandable_segments", "out_of_memory")
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert run(device, "h100", names, variables) == all_work(names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "card", list({card.capability: card.key for card in reversed(CARDS)}.values())
)
def test_each_capability_works(device: SimulatedDevice, card: str) -> None:
    assert run(device, card, ON_EACH_CARD) == all_work(ON_EACH_CARD)
