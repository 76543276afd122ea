"""The page of one device, as text."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import NOW, gpu, sample, uuid
from tui.devices.state.devices import DeviceView
from tui.devices.views.device_page import device_page, format_ranges
from tui.kit.lines import plain, width
from tui.monitor.messages import (
    DeviceDetail,
    NvLink,
    Pcie,
    PcieTraffic,
    Sample,
    TopologyRow,
)

DETAIL = DeviceDetail(
    id=uuid(0),
    max_sm_clock_mhz=1980,
    max_memory_clock_mhz=3201,
    default_power_limit_w=650.0,
    pcie_replays=0,
    ecc_corrected=2,
    ecc_uncorrected_ever=None,
    ecc=True,
    encoder_percent=0.0,
    decoder_percent=None,
    nvlinks=tuple(NvLink(number, True, "00000000:90:00.0", True) for number in range(18)),
    topology=tuple(
        TopologyRow(
            uuid(row),
            row,
            tuple("X" if row == column else "NV18" for column in range(8)),
            tuple(range(48 * (row // 4), 48 * (row // 4) + 48)),
            (row // 4,),
        )
        for row in range(8)
    ),
    unavailable={"decoder_percent": "not supported", "ecc_uncorrected_ever": "not supported"},
)
TRAFFIC = PcieTraffic(uuid(0), 1_500_000_000, None, {"received": "driver too old"})


def page(seen: Sample, cells: int = 80) -> list[str]:
    device = seen.devices[0]
    return [
        plain(row).rstrip() for row in device_page(DeviceView(device.id, device), seen, NOW, cells)
    ]


def row(rows: list[str], label: str) -> str:
    return next((item for item in rows if item.startswith(label)), "")


def test_a_page_has_every_figure_with_its_limit() -> None:
    device = gpu(0, pcie=Pcie(1, 16, 5, 16), vbios="96.00.B9", slowdown_c=92.0)
    rows = page(sample(device, traffic=TRAFFIC, detail=DETAIL))
    assert row(rows, "SM clock").endswith("1980 MHz, at most 1980 MHz")
    assert row(rows, "power").endswith("310 W, cap 700 W, by default 650 W")
    assert row(rows, "temperature").endswith("45°C, slows down at 92°C")
    assert row(rows, "PCIe link").endswith("generation 1, 16 lanes; at most generation 5, 16 lanes")
    assert row(rows, "from the GPU").endswith("1.50 GB/s")
    assert "to the GPU n/a: driver too old" in rows
    assert row(rows, "NVLinks").endswith("18 of 18 active, to NVSwitches")
    assert row(rows, "ECC ").endswith("on")
    assert row(rows, "VBIOS").endswith("96.00.B9")
    assert "decoder n/a: not supported" in rows


def test_the_topology_is_a_matrix_with_its_legend() -> None:
    rows = page(sample(gpu(0), detail=DETAIL))
    at = next(number for number, text in enumerate(rows) if text.startswith("topology"))
    assert rows[at + 1].split() == [*(f"GPU{number}" for number in range(8)), "CPUs", "NUMA"]
    assert rows[at + 2].split() == ["▸", "GPU0", "X", *["NV18"] * 7, "0-47", "0"]
    assert rows[at + 9].split() == ["GPU7", *["NV18"] * 7, "X", "48-95", "1"]
    assert rows[at + 10] == "NV# that many NVLinks"


def test_no_line_is_wider_than_the_page() -> None:
    seen = sample(gpu(0), traffic=TRAFFIC, detail=DETAIL)
    view = DeviceView(uuid(0), seen.devices[0])
    for cells in (30, 56, 76, 98):
        assert max(map(width, device_page(view, seen, NOW, cells))) <= cells


def test_details_of_another_device_are_not_shown() -> None:
    rows = page(sample(gpu(0), detail=replace(DETAIL, id=uuid(3))))
    assert "NVLink, topology, video and ECC: waiting for the monitor" in rows
    assert not any("topology" in text and "waiting" not in text for text in rows)


def test_the_processes_are_listed_the_largest_first() -> None:
    rows = page(sample(gpu(0)))
    at = next(number for number, text in enumerate(rows) if text.startswith("processes"))
    assert "16.6 GiB" in rows[at + 1]
    assert "4.1 GiB" in rows[at + 2]
    assert "none" in page(sample(gpu(1)))


@given(st.sets(st.integers(0, 300)))
def test_ranges_name_the_same_numbers(numbers: set[int]) -> None:
    actual: set[int] = set()
    for part in filter(None, format_ranges(sorted(numbers)).split(",")):
        first, _, last = part.partition("-")
        actual |= set(range(int(first), int(last or first) + 1))
    assert actual == numbers
