"""What a device makes of its data is taken as it comes: zeros end a run as a wrong result."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import ran
from tests.unit.test_study import Scripted
from workloads.catalog.training.mixed_precision import _underflow
from workloads.declare.place import Place
from workloads.declare.study import Study
from workloads.protocol.results import Setting


@pytest.fixture
def _zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, as on a device whose kernels do nothing."""

    def drawn(_place: Place, *shape: int, dtype: str = "float32") -> torch.Tensor:
        return torch.zeros(*shape, dtype=getattr(torch, dtype))

    monkeypatch.setattr(Place, "randn", drawn)


@pytest.mark.usefixtures("_zeros")
@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        ("matmul", {"n": 16}),
        ("attention", {"batch": 1, "heads": 1, "length": 16, "width": 8}),
        ("item_in_loop", {"steps": 2, "width": 8, "batch": 8}),
    ],
)
def test_a_device_that_draws_zeros_gives_a_wrong_result_and_no_error_of_ours(
    workload: str, parameters: dict[str, Setting]
) -> None:
    result = ran(workload, "cpu", **parameters)
    reason = result.reason or ""
    assert result.status == "failed"
    assert reason.startswith("wrong result: error not a number"), result.trace
    assert reason.endswith("which is zero everywhere")


def test_equations_that_have_no_solution_are_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def singular(*shape: int, device: object = None) -> torch.Tensor:
        assert device is not None
        return torch.zeros(shape[0], shape[0])

    def drawn(_place: Place, *shape: int, dtype: str = "float32") -> torch.Tensor:
        return torch.zeros(*shape, dtype=getattr(torch, dtype))

    genuine = torch.linalg.solve
    monkeypatch.setattr(Place, "randn", drawn)
    monkeypatch.setattr(torch, "eye", singular)
    # The device's own solution raises nothing, as a kernel that does nothing.
    monkeypatch.setattr(
        torch.linalg, "solve", lambda a, b: genuine(a, b) if a.dtype == torch.float64 else b
    )
    result = ran("linalg", n=8)
    assert result.status == "failed"
    assert (result.reason or "").startswith("wrong result: error not a number"), result.trace
    assert "which fails: " in (result.reason or "")


@pytest.mark.parametrize(
    ("gradient", "scale", "unscaled", "scaled"),
    [
        ([1.0, 0.0, 1e-9, 1e-9], 2.0**16, 200 / 3, 0.0),
        ([1.0, 2.0], 1.0, 0.0, 0.0),
        ([1e-9, 1e-14], 2.0**16, 100.0, 50.0),
    ],
)
def test_the_share_that_float16_makes_zero_is_of_the_entries_that_were_not(
    gradient: list[float], scale: float, unscaled: float, scaled: float
) -> None:
    found = Study(1.0, "device", Scripted(), lambda _study: None)
    _underflow(found, torch.tensor(gradient), scale)
    assert found.figures["float16_underflow"].value == pytest.approx(unscaled)
    assert found.figures["float16_underflow_scaled"].value == pytest.approx(scaled)


def test_a_gradient_of_zeros_has_no_share_to_lose() -> None:
    found = Study(1.0, "device", Scripted(), lambda _study: None)
    _underflow(found, torch.zeros(4), 2.0)
    assert found.figures["float16_underflow"].value is None
    assert found.unavailable["figures.float16_underflow"]
