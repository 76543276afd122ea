"""What a run takes of the CPU's memory: as much as its tensors, whatever the heap holds."""

from __future__ import annotations

import platform
from collections.abc import Callable

import pytest
import torch

from tests.catalog.brief import BRIEF
from workloads.declare import workload as declared
from workloads.declare.place import Place
from workloads.declare.workload import Case
from workloads.measure import cpu_peak, malloc, timing
from workloads.measure.cpu_peak import PATH
from workloads.measure.timing import Control
from workloads.protocol.messages import Run
from workloads.protocol.results import RunResult
from workloads.runner import execute

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="glibc and /proc")
MIB = 2**20


def ran(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Place], Callable[[], object]]
) -> RunResult:
    """Return the result of a short run that times the function that ``make`` returns."""

    def made(on: Place) -> Case:
        return Case(make(on))

    monkeypatch.setattr(declared, "_registry", {})
    # The peak is that of a few calls; the others would only be timed.
    monkeypatch.setitem(timing.PLANS, "quick", BRIEF)
    about = {"group": "test", "title": "Made", "about": "a", "look_for": "b"}
    declared.workload(**about)(made)  # type: ignore[arg-type]
    request = Run("1", "made", "cpu", {}, {}, "quick", time_only=True)
    result = execute.run(request, Control(), lambda _: None, cold=True)
    assert (result.status, result.reason) == ("ok", None)
    return result


def with_holes() -> list[object]:
    """Return tensors between freed blocks of the heap, as earlier runs leave them."""
    kept: list[object] = []
    freed = []
    for number in range(40):
        freed.append(torch.ones((1 + number % 7) * MIB // 4))
        kept.append(torch.ones(64))
    return kept


@pytest.mark.parametrize(
    "mib", [20, *(pytest.param(mib, marks=pytest.mark.slow) for mib in (31, 48))]
)
def test_a_chain_takes_three_tensors_whatever_the_heap_holds(
    monkeypatch: pytest.MonkeyPatch, mib: int
) -> None:
    malloc.fix_thresholds()
    holes = with_holes()

    def chain(on: Place) -> Callable[[], object]:
        x = on.randn(mib * MIB // 4)
        return lambda: torch.relu(x * 2 + 1) - x

    result = ran(monkeypatch, chain)
    assert holes
    assert result.memory.allocated_peak == pytest.approx(3 * mib * MIB, rel=0.05)
    assert PATH not in result.unavailable
    # The libraries of this process are part of the other figure.
    assert (result.memory.process_peak or 0) > (result.memory.allocated_peak or 0)


def test_a_peak_smaller_than_what_the_kernel_may_miss_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    malloc.fix_thresholds()
    cells = cpu_peak.resolution() // 8

    def small(on: Place) -> Callable[[], object]:
        x = on.randn(cells)
        return lambda: x + 1

    result = ran(monkeypatch, small)
    assert result.memory.allocated_peak is None
    assert "MiB may be missing" in result.unavailable[PATH]


def test_what_the_first_call_makes_and_keeps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    malloc.fix_thresholds()

    def step(on: Place) -> Callable[[], object]:
        weight = on.randn(16 * MIB // 4).requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=1e-3, momentum=0.9, foreach=False)

        def one() -> None:
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()

        return one

    # The weight, its gradient and its momentum; what the first step imports is no part of it.
    peak = ran(monkeypatch, step).memory.allocated_peak
    assert peak == pytest.approx(3 * 16 * MIB, rel=0.05)


def test_tensors_that_share_memory_count_once_and_gradients_count() -> None:
    before = cpu_peak.count_tensor_bytes()
    one = torch.ones(MIB, requires_grad=True)
    views = [one.detach()[:10], one.detach().view(1024, 1024)]
    assert cpu_peak.count_tensor_bytes() - before == 4 * MIB
    one.sum().backward()
    assert 8 * MIB <= cpu_peak.count_tensor_bytes() - before < 8 * MIB + 1024
    none = torch.ones(MIB, device="meta"), torch.ones(8).to_sparse()
    assert cpu_peak.count_tensor_bytes() - before < 8 * MIB + 2048
    assert views
    assert none


def test_where_the_thresholds_are_not_set_the_figure_is_absent_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(malloc, "_fixed", False)
    result = ran(monkeypatch, lambda on: lambda: on.device)
    assert result.memory.allocated_peak is None
    assert "glibc" in result.unavailable[PATH]
