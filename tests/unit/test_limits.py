"""Limits: the table against the derivation, and what is not in either."""

from __future__ import annotations

import pytest

from workloads import limits
from workloads.inventory import TorchDevice

GIB = 2**30
H200 = TorchDevice(
    "cuda:0", "NVIDIA H200", None, None, int(139.8 * GIB), "9.0", 132, 1.98e9, 60 * 2**20
)
RTX_4090 = TorchDevice(
    "cuda:0", "NVIDIA GeForce RTX 4090", None, None, int(23.5 * GIB), "8.9", 128, 2.52e9
)


def test_a_known_part_is_held_against_its_published_dense_peak() -> None:
    limit = limits.compute_limit(H200, "bfloat16", 788e12)
    assert limit is not None
    assert limit.value == 989e12
    assert limit.fraction == pytest.approx(0.797, abs=1e-3)
    assert "published dense peak" in limit.source


@pytest.mark.parametrize(
    ("device", "precision"), [(H200, "float32"), (RTX_4090, "bfloat16"), (RTX_4090, "tf32")]
)
def test_the_derivation_agrees_with_the_table(device: TorchDevice, precision: str) -> None:
    peak = limits.published(device)
    assert peak is not None
    derived = limits.derived_flop_per_s(device, precision)
    assert derived == pytest.approx(peak.tflops[precision] * 1e12, rel=0.02)


def test_a_part_that_is_not_in_the_table_is_held_against_a_derived_limit() -> None:
    unknown = TorchDevice("cuda:0", "NVIDIA X[/x]", None, None, 10 * GIB, "8.6", 10, 1e9)
    limit = limits.compute_limit(unknown, "float32", 1e12)
    assert limit is not None
    assert limit.value == 10 * 256 * 1e9
    assert limit.source == "derived: 10 multiprocessors at 1000 MHz"


@pytest.mark.parametrize("precision", ["float64", "int8"])
def test_a_precision_without_a_figure_has_no_limit(precision: str) -> None:
    assert limits.compute_limit(H200, precision, 1e12) is None


def test_the_names_of_the_parts_do_not_match_one_anothers_rows() -> None:
    l4 = TorchDevice("cuda:0", "NVIDIA L4", None, None, 23 * GIB, "8.9", 58)
    l40s = TorchDevice("cuda:0", "NVIDIA L40S", None, None, 45 * GIB, "8.9", 142)
    a10g = TorchDevice("cuda:0", "NVIDIA A10G", None, None, 22 * GIB, "8.6", 80)
    found = [limits.published(device) for device in (l4, l40s, a10g)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].memory_gb_s == 300
    assert found[1].memory_gb_s == 864
    assert found[2] is None


@pytest.mark.parametrize(
    ("name", "gib", "memory"),
    [
        ("NVIDIA A100 80GB PCIe", 79, 1935),
        ("NVIDIA A100-SXM4-80GB", 79, 2039),
        ("NVIDIA GH200 480GB", 95, 4000),
        ("NVIDIA GH200 144G HBM3e", 141, 4800),
    ],
)
def test_names_as_the_driver_gives_them_find_their_row(name: str, gib: int, memory: int) -> None:
    peak = limits.published(TorchDevice("cuda:0", name, None, None, gib * GIB))
    assert peak is not None
    assert peak.memory_gb_s == memory


def test_a_transfer_is_held_against_one_way_of_the_link() -> None:
    limit = limits.bandwidth_limit(H200, "pcie", 52e9)
    assert limit is not None
    assert limit.value == 63e9
