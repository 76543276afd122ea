"""The figures that the monitor reads of one device: PCIe traffic and details."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor.process import MonitorProcess
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Gpu, Scenario, uuid
from tui.monitor.messages import NvLink, WatchDevice
from tui.monitor.topology import count_nvlinks, members_of
from workloads.protocol.wire import encode

FIRST, SECOND = uuid(0), uuid(1)


@pytest.fixture
def monitor(scripted_nvml: ScriptedNvml) -> Iterator[MonitorProcess]:
    gpus = (
        Gpu(uuid=FIRST, bus=0x18, sent=1_500_000, received=24_000_000, encoder=12),
        Gpu(uuid=SECOND, bus=0x2A, node=1, decoder=None, sent=None, ecc=None),
        Gpu(uuid=uuid(2), bus=0x3B, node=1, nvlinks=0),
    )
    child = MonitorProcess(scripted_nvml.env(Scenario(devices=gpus)))
    yield child
    child.end()


def test_no_device_is_watched_before_somebody_requests_it(
    monitor: MonitorProcess, scripted_nvml: ScriptedNvml
) -> None:
    sample = monitor.until(lambda sample: sample.devices)
    assert sample.traffic is None
    assert sample.detail is None
    assert not [name for name, _ in scripted_nvml.calls() if "Throughput" in name]


def test_the_traffic_is_read_of_the_watched_device_alone(
    monitor: MonitorProcess, scripted_nvml: ScriptedNvml
) -> None:
    monitor.write(encode(WatchDevice(FIRST, detail=False)))
    sample = monitor.until(lambda sample: sample.traffic)
    assert sample.traffic is not None
    assert (sample.traffic.sent, sample.traffic.received) == (1_500_000_000, 24_000_000_000)
    assert sample.detail is None
    asked = {device for name, device in scripted_nvml.calls() if "Throughput" in name}
    assert asked == {0}
    monitor.write(encode(WatchDevice("", detail=False)))
    monitor.until(lambda sample: sample.traffic is None)


def test_a_refused_figure_has_its_reason(monitor: MonitorProcess) -> None:
    monitor.write(encode(WatchDevice(SECOND, detail=True)))
    sample = monitor.until(lambda sample: sample.detail)
    assert sample.traffic is not None
    assert sample.detail is not None
    assert sample.traffic.sent is None
    assert sample.traffic.unavailable["sent"] == "not supported by this device"
    assert sample.detail.decoder_percent is None
    assert sample.detail.unavailable["decoder_percent"] == "not supported by this device"
    assert sample.detail.encoder_percent == 0
    assert sample.detail.ecc is None
    assert "ecc" in sample.detail.unavailable


def test_the_details_have_links_and_the_topology_of_all_gpus(monitor: MonitorProcess) -> None:
    monitor.write(encode(WatchDevice(FIRST, detail=True)))
    detail = monitor.until(lambda sample: sample.detail).detail
    assert detail is not None
    assert detail.id == FIRST
    assert detail.encoder_percent == 12
    assert detail.max_sm_clock_mhz == 1980
    assert detail.nvlinks is not None
    assert len(detail.nvlinks) == 18
    assert detail.nvlinks[0] == NvLink(0, True, "00000000:90:00.0", is_switch=True)
    assert detail.topology is not None
    assert [row.links for row in detail.topology] == [
        ("X", "NV18", "SYS"),
        ("NV18", "X", "NODE"),
        ("SYS", "NODE", "X"),
    ]
    assert detail.topology[1].cpus == tuple(range(48, 96))
    assert detail.topology[1].numa_nodes == (1,)


def test_a_device_without_nvlink_says_so(monitor: MonitorProcess) -> None:
    monitor.write(encode(WatchDevice(uuid(2), detail=True)))
    detail = monitor.until(lambda sample: sample.detail).detail
    assert detail is not None
    assert detail.nvlinks is None
    assert detail.unavailable["nvlinks"] == "the device has none"


def test_another_device_is_read_after_another_request(monitor: MonitorProcess) -> None:
    monitor.write(encode(WatchDevice(FIRST, detail=True)))
    monitor.until(lambda sample: sample.detail and sample.detail.id == FIRST)
    monitor.write(encode(WatchDevice(SECOND, detail=True)))
    monitor.until(lambda sample: sample.detail and sample.detail.id == SECOND)


def test_a_device_that_nobody_knows_has_no_figures(monitor: MonitorProcess) -> None:
    monitor.write(encode(WatchDevice(FIRST, detail=True)))
    monitor.until(lambda sample: sample.traffic)
    monitor.write(encode(WatchDevice("GPU-of-nobody", detail=True)))
    sample = monitor.until(lambda sample: sample.traffic is None)
    assert len(sample.devices) == 3


def _links(remote: str, count: int, *, is_switch: bool = False) -> tuple[NvLink, ...]:
    return tuple(NvLink(number, True, remote, is_switch) for number in range(count))


@pytest.mark.parametrize(
    ("own", "others", "count"),
    [
        (_links("0:2", 4), _links("0:1", 4), 4),
        (_links("0:3", 4), _links("0:1", 4), 0),
        (_links("0:90", 18, is_switch=True), _links("0:91", 12, is_switch=True), 12),
        ((NvLink(0, False, None),), (), 0),
    ],
)
def test_the_links_of_a_pair_are_counted_direct_or_over_switches(
    own: tuple[NvLink, ...], others: tuple[NvLink, ...], count: int
) -> None:
    assert count_nvlinks(own, others, "0:2") == count


@given(st.sets(st.integers(0, 255)))
def test_the_bits_of_words_are_their_numbers(numbers: set[int]) -> None:
    words = [
        sum(1 << bit for bit in range(64) if place * 64 + bit in numbers) for place in range(4)
    ]
    assert members_of(words) == tuple(sorted(numbers))
