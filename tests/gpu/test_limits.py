"""Limits and ceilings of a real GPU: what is measured lies below what is possible."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import column, numbers
from tests.gpu.test_transfer import on_gpu
from workloads.declare.place import Place
from workloads.limits import limit_lookup, limits
from workloads.limits.ceilings import Ceilings
from workloads.limits.limit_lookup import LimitQuery, find
from workloads.measure import environment
from workloads.measure.clocks import clock_for
from workloads.measure.timing import Control
from workloads.protocol.results import COPY

pytestmark = [pytest.mark.timeout(300)]

GPU = torch.device("cuda:0")


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["float32", "bfloat16", COPY])
def test_a_measured_ceiling_lies_below_the_hardwares_and_not_far_below(kind: str) -> None:
    found = limit_lookup.best_rate(kind, Place(str(GPU)), clock_for(GPU), Control())
    asked = limits.MEMORY if kind == COPY else kind
    limit = limits.hardware_limit(environment.device(GPU), asked, found.value)
    if limit is None:
        pytest.skip(f"no peak of {asked} is known for {environment.device(GPU).name}")
    assert not limit.exceeded
    assert limit.fraction > 0.3
    assert found.under["driver"]
    assert not found.disturbed


@pytest.mark.simulated_gpu
def test_a_published_or_derived_limit_goes_before_a_measured_one() -> None:
    limit = find(LimitQuery("float32", 1e12), GPU, Ceilings())
    if limit is None:
        pytest.skip("neither published nor derived")
    assert limit.basis in ("published", "derived")


@pytest.mark.simulated_gpu
def test_the_ceiling_workload_lays_each_kind_beside_its_peak() -> None:
    result = on_gpu("ceiling")
    assert result.limit is None or not result.limit.exceeded
    assert {"float32", "tf32", "bfloat16"} >= set(column(result, "products", "kind"))
    shares = [share for share in column(result, "products", "share") if isinstance(share, float)]
    assert all(0 < share <= 110 for share in shares)
    assert min(numbers(result, "traffic", "highest rate")) > 0


@pytest.mark.simulated_gpu
def test_copies_from_the_host_stay_below_the_link_as_it_is_under_load() -> None:
    link = limits.read_link(environment.device(GPU).pci_bus_id)
    if link is None:
        pytest.skip("the system does not tell of this GPU's link")
    result = on_gpu("copy_sizes", largest_mib=256)
    assert result.limit is None or not result.limit.exceeded
    if link.most is not None:
        assert link.now.byte_per_s <= link.most.byte_per_s
