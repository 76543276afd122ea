"""What one run sets in torch, the next does not find."""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch

from tests.catalog.brief import BRIEF
from workloads import catalog
from workloads.declare import workload as declared
from workloads.declare.place import Place
from workloads.declare.workload import Case
from workloads.measure import timing, torch_state
from workloads.measure.timing import Control
from workloads.protocol.messages import Run
from workloads.runner import execute

assert catalog


def _fp32(value: str) -> None:
    torch.backends.cuda.matmul.fp32_precision = value


def _all_fp32(value: str) -> None:
    # Torch's stubs do not know the name.
    setattr(torch.backends, "fp32_precision", value)  # noqa: B010


def _both_names() -> None:
    torch.set_float32_matmul_precision("high")
    _fp32("ieee")


def _tf32_of_cudnn() -> None:
    torch.backends.cudnn.allow_tf32 = not torch.backends.cudnn.allow_tf32


CHANGES: dict[str, Callable[[], object]] = {
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradients": lambda: torch.set_grad_enabled(False),
    "device": lambda: torch.set_default_device("meta"),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "products": lambda: torch.set_float32_matmul_precision("medium"),
    "cudnn": _tf32_of_cudnn,
    "attention": lambda: torch.backends.cuda.enable_math_sdp(False),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast of a GPU": lambda: torch.set_autocast_enabled("cuda", True),
    "autocast dtype": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "autocast dtype of a GPU": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
    "autocast cache": lambda: torch.set_autocast_cache_enabled(False),
    "fp32": lambda: _fp32("tf32"),
    "all fp32": lambda: _all_fp32("tf32"),
    "both names": _both_names,
}


def _values() -> dict[str, object]:
    return {setting.name: setting.get() for setting in torch_state.settings()}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_block_sets_is_set_again_as_it_was(change: str) -> None:
    newer = "fp32" in change or "names" in change
    if newer and not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has the older names alone")
    before = _values()
    with torch_state.restored():
        CHANGES[change]()
    assert _values() == before
    # As the catalogue reads them.
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert isinstance(torch.backends.cudnn.allow_tf32, bool)
    assert not any(torch.is_autocast_enabled(kind) for kind in torch_state.AUTOCAST_ON)
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert torch.get_autocast_dtype("cuda") == torch.float16
    assert torch.is_autocast_cache_enabled()


@pytest.mark.parametrize(
    "draw",
    [lambda: random.random(), lambda: torch.rand(1).item()],
    ids=["python", "torch"],
)
def test_random_generators_go_on_from_where_they_were(draw: Callable[[], float]) -> None:
    with torch_state.restored():
        expected = draw()
    with torch_state.restored():
        random.seed(3)
        torch.manual_seed(3)
        draw()
    assert draw() == expected
    assert not torch.cuda.is_initialized()


def test_the_seed_is_again_what_it_was() -> None:
    before = torch.initial_seed()
    with torch_state.restored():
        torch.manual_seed(before + 1)
    assert torch.initial_seed() == before


def test_a_block_that_fails_leaves_nothing_either() -> None:
    def failing() -> None:
        with torch_state.restored():
            torch.set_default_dtype(torch.float64)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert torch.get_default_dtype() == torch.float32


def _run(name: str, **parameters: int) -> str:
    request = Run("1", name, "cpu", dict(parameters), {}, "quick", time_only=True)
    with patch.dict(timing.PLANS, quick=BRIEF):
        return execute.run(request, Control(), lambda _: None, cold=True).status


@pytest.mark.parametrize("when", ["preparing", pytest.param("timed", marks=pytest.mark.slow)])
def test_a_workload_that_sets_everything_leaves_the_next_one_alone(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    names = [name for name in CHANGES if name not in ("device", "fp32", "all fp32", "both names")]
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        names.append("fp32")
    before = _values()

    def change() -> None:
        for name in names:
            CHANGES[name]()

    def leaving(on: Place) -> Case:
        if when == "preparing":
            change()

        def timed() -> object:
            if when == "timed" and torch.is_grad_enabled():
                change()
            return on.device

        return Case(timed)

    monkeypatch.setattr(declared, "_registry", dict(declared.registered()))
    decorate = declared.workload(
        group="test", title="Leaving", about="a", look_for="b", devices=("cpu",)
    )
    decorate(leaving)
    assert _run("leaving") == "ok"
    assert _values() == before
    assert _run("matmul", n=64) == "ok"


def test_a_cudnn_that_does_not_start_leaves_the_flags_of_cublas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    flags = torch_state.describe_flags(no_cuda=None, no_cudnn="cuDNN does not start")
    reasons = {flag.name: flag.unavailable for flag in flags}
    assert reasons["cudnn.enabled"] == "cuDNN does not start"
    assert reasons["cuda.matmul.fp32_precision"] is None
    flags = torch_state.describe_flags(no_cuda="no GPU", no_cudnn="no GPU to load it for")
    reasons = {flag.name: flag.unavailable for flag in flags}
    assert reasons["cudnn.enabled"] == reasons["cuda.matmul.fp32_precision"] == "no GPU"
