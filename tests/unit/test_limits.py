"""Limits: the table against the derivation, and what is not in either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from workloads.declare.place import Place, attention_precision
from workloads.declare.workload import THREE_TF32
from workloads.limits import limits
from workloads.limits.limits import LinkState, PcieLink
from workloads.measure import float32
from workloads.protocol.results import Ceiling, TorchDevice

GIB = 2**30
H200 = TorchDevice(
    "cuda:0", "NVIDIA H200", None, None, int(139.8 * GIB), "9.0", 132, 1.98e9, 60 * 2**20
)
RTX_4090 = TorchDevice(
    "cuda:0", "NVIDIA GeForce RTX 4090", None, None, int(23.5 * GIB), "8.9", 128, 2.52e9
)


def test_a_known_part_is_held_against_its_published_dense_peak() -> None:
    limit = limits.hardware_limit(H200, "bfloat16", 788e12)
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
    limit = limits.hardware_limit(unknown, "float32", 1e12)
    assert limit is not None
    assert limit.value == 10 * 256 * 1e9
    assert limit.source == "derived: 10 multiprocessors at 1000 MHz"


@pytest.mark.parametrize("precision", ["float64", "int8"])
def test_a_precision_without_a_figure_has_no_limit(precision: str) -> None:
    assert limits.hardware_limit(H200, precision, 1e12) is None


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
        ("NVIDIA GH200 144G HBM3e", 141, 4900),
        ("A100-SXM4-40GB", 39, 1555),
        ("NVIDIA A100-PCIE-40GB", 39, 1555),
        ("Tesla V100-SXM2-32GB", 31, 900),
        ("Tesla V100-PCIE-16GB", 15, 900),
        ("Tesla T4", 14, 320),
        ("A30", 23, 933),
        ("NVIDIA H100 80GB HBM3", 79, 3350),
        ("NVIDIA H200 NVL", 140, 4800),
        ("NVIDIA GB10", 119, 273),
    ],
)
def test_names_as_the_driver_gives_them_find_their_row(name: str, gib: int, memory: int) -> None:
    peak = limits.published(TorchDevice("cuda:0", name, None, None, gib * GIB))
    assert peak is not None
    assert peak.memory_gb_s == memory


def test_a_transfer_is_held_against_one_way_of_the_link() -> None:
    limit = limits.hardware_limit(H200, "pcie", 52e9)
    assert limit is not None
    assert limit.value == 63e9


def test_copies_between_gpus_are_held_against_one_way_of_nvlink_where_a_part_always_has_it() -> (
    None
):
    limit = limits.hardware_limit(H200, limits.NVLINK, 380e9)
    assert limit is not None
    assert (limit.name, limit.value) == ("one-way NVLink", 450e9)
    assert limits.ceiling_kind(limits.NVLINK) is None
    # Bridges between these are sold apart, and a part that is not in the table has no figure.
    for name, gib in (("NVIDIA H200 NVL", 140), ("NVIDIA A100-PCIE-40GB", 39), ("X", 40)):
        other = replace(H200, name=name, total_memory=gib * GIB)
        assert limits.hardware_limit(other, limits.NVLINK, 1e9) is None
    on_board = replace(H200, name="NVIDIA A100-SXM4-40GB", total_memory=39 * GIB)
    assert limits.hardware_limit(on_board, limits.NVLINK, 1e9) is not None


GEN5, GEN1 = LinkState(32.0, 16), LinkState(2.5, 16)


@pytest.mark.parametrize(
    ("state", "giga"),
    [
        (LinkState(2.5, 16), 4.0),
        (LinkState(8.0, 16), 15.75),
        (LinkState(16.0, 8), 15.75),
        (GEN5, 63.0),
        (LinkState(64.0, 16), 121.0),
    ],
)
def test_a_link_moves_what_its_lanes_do_less_their_encoding(state: LinkState, giga: float) -> None:
    assert state.byte_per_s == pytest.approx(giga * 1e9, rel=1e-3)


@pytest.mark.parametrize(
    ("link", "rate", "value", "words"),
    [
        (PcieLink(GEN5, GEN5), 52e9, 63.0e9, "32 GT/s x16"),
        (PcieLink(LinkState(32.0, 8), GEN5), 26e9, 31.5e9, "the slot has less"),
        # The link had slowed down before it was asked.
        (PcieLink(GEN1, GEN5), 52e9, 63.0e9, "right after the run 2.5 GT/s x16"),
        (PcieLink(GEN1, None), 52e9, 4.0e9, "2.5 GT/s x16"),
    ],
)
def test_a_transfer_is_held_against_the_link_as_it_is(
    link: PcieLink, rate: float, value: float, words: str
) -> None:
    for device in (H200, replace(H200, name="of no row")):
        limit = limits.hardware_limit(device, "pcie", rate, link)
        assert limit is not None
        assert limit.value == pytest.approx(value, rel=1e-3)
        assert (limit.basis, limit.name) == ("derived", "one-way PCIe")
        assert words in limit.source
        assert limit.exceeded is (rate > 1.03 * value)


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA GB10"])
def test_a_part_whose_cpu_is_on_nvlink_is_not_held_against_its_pcie_link(name: str) -> None:
    coherent = replace(H200, name=name)
    assert limits.hardware_limit(coherent, "pcie", 300e9, PcieLink(GEN5, GEN5)) is None


def test_a_link_is_read_as_the_kernel_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_DEVICES", tmp_path)
    assert limits.read_link(None) is None
    assert limits.read_link("00000000:E5:00.0") is None
    folder = tmp_path / "0000:e5:00.0"
    folder.mkdir()
    for name, text in (
        ("current_link_speed", "2.5 GT/s PCIe\n"),
        ("current_link_width", "16\n"),
        ("max_link_speed", "Unknown\n"),
        ("max_link_width", "255\n"),
    ):
        (folder / name).write_text(text)
    assert limits.read_link("00000000:E5:00.0") == PcieLink(GEN1, None)
    (folder / "max_link_speed").write_text("32.0 GT/s PCIe\n")
    (folder / "max_link_width").write_text("16\n")
    assert limits.read_link("00000000:E5:00.0") == PcieLink(GEN1, GEN5)
    (folder / "current_link_width").write_text("0\n")
    assert limits.read_link("00000000:E5:00.0") is None


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19),
        ("Tesla V100S-PCIE-32GB", 31),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 15),
        ("NVIDIA GeForce RTX 3090 Ti", 23),
        ("NVIDIA RTX A3000", 11),
        ("NVIDIA L40", 44),
    ],
)
def test_a_part_of_a_like_name_is_not_taken_for_another(name: str, gib: int) -> None:
    assert limits.published(TorchDevice("cuda:0", name, None, None, gib * GIB)) is None


def test_every_row_names_its_source_and_has_a_figure_for_its_memory() -> None:
    for peak in limits.PEAKS:
        assert peak.source
        assert peak.memory_gb_s > 0
        assert all(value > 0 for value in peak.tflops.values())
        if "float8" in peak.tflops:
            ratio = peak.tflops["float8"] / peak.tflops["bfloat16"]
            assert ratio == pytest.approx(2, abs=0.03)


def test_a_rate_that_the_highest_clock_allows_is_not_called_impossible() -> None:
    # 132 multiprocessors at 1980 MHz do 1070 TFLOP/s; the datasheet's 989 are at 1830 MHz.
    for rate, exceeded in ((1050e12, False), (1200e12, True)):
        limit = limits.hardware_limit(H200, "bfloat16", rate)
        assert limit is not None
        assert limit.exceeded is exceeded


def test_memory_bandwidth_is_derived_from_the_bus_where_no_row_has_it() -> None:
    unknown = TorchDevice(
        "cuda:0", "X", None, None, GIB, "9.0", 1, 1e9, None, memory_clock_hz=3.201e9,
        memory_bus_bits=6144,
    )  # fmt: skip
    limit = limits.hardware_limit(unknown, limits.MEMORY, 1e12)
    assert limit is not None
    assert limit.value == pytest.approx(4917e9, rel=1e-3)
    assert limit.source == "derived: a bus of 6144 bits at 3201 MHz, both edges"
    assert limits.hardware_limit(unknown, limits.PCIE, 1e12) is None
    slice_of_it = replace(unknown, name="X MIG 1g.10gb")
    assert limits.hardware_limit(slice_of_it, limits.MEMORY, 1e12) is None


A100 = TorchDevice("cuda:0", "NVIDIA A100-SXM4-80GB", None, None, 79 * GIB, "8.0", 108, 1.41e9)


@pytest.mark.parametrize(("device", "tera"), [(H200, 494.5 / 3), (A100, 156 / 3), (RTX_4090, 82.6)])
def test_float32_on_tensor_cores_is_held_against_a_third_of_tf32_where_that_is_more(
    device: TorchDevice, tera: float
) -> None:
    limit = limits.hardware_limit(device, THREE_TF32, 1e12)
    assert limit is not None
    assert limit.value == pytest.approx(tera * 1e12)
    assert limit.name == "float32 (or 3xTF32)"
    derived = limits.hardware_limit(replace(device, name="X"), THREE_TF32, 1e12)
    assert derived is not None
    assert derived.value == pytest.approx(tera * 1e12, rel=0.09)


def test_without_a_figure_for_tf32_float32_on_tensor_cores_has_no_limit() -> None:
    unknown = replace(H200, name="X", capability="7.0")
    assert limits.hardware_limit(unknown, "float32", 1e12) is not None
    assert limits.hardware_limit(unknown, THREE_TF32, 1e12) is None
    assert limits.ceiling_kind(THREE_TF32) is None


@pytest.mark.parametrize(
    ("capability", "dtype", "allowed", "expected"),
    [
        ((9, 0), "float32", False, THREE_TF32),
        ((9, 0), "float32", True, "tf32"),
        ((9, 0), "bfloat16", False, "bfloat16"),
        ((7, 5), "float32", False, "float32"),
    ],
)
def test_attention_in_float32_may_run_on_tensor_cores_from_ampere_on(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    dtype: str,
    allowed: bool,
    expected: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    with float32.tf32_set(allowed, "matmul"):
        assert attention_precision(Place("cuda:0"), dtype) == expected
        assert attention_precision(Place("cpu"), dtype) == dtype


def test_a_measured_limit_says_when_and_how_it_was_measured() -> None:
    ceiling = Ceiling("float32", 150e9, "2048 x 2048 matrix product, best of 40 blocks", 0.0, {})
    limit = limits.measured_limit(ceiling, "float32", 120e9)
    assert (limit.name, limit.basis, limit.fraction) == ("float32", "measured", 0.8)
    assert limit.source.startswith("measured on this machine 19")
    assert limit.source.endswith(ceiling.how)


def test_what_stays_in_the_cache_is_not_held_against_the_memory() -> None:
    assert limits.cached(limits.MEMORY, 32 * 2**20, 32 * 2**20) is not None
    assert limits.cached(limits.MEMORY, 128 * 2**20, 32 * 2**20) is None
    assert limits.cached(limits.PCIE, 1, 32 * 2**20) is None
    assert limits.cached(limits.MEMORY, 1, None) is None
