"""The rows of the devices pane: what fits, what is left out, what stands in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import HOSTILE, NOW, Kind, gpu, make_store, sample, uuid
from tui.monitor.messages import Clocks, Device, DeviceMemory, Pcie, Utilization
from tui.state.events import MonitorStatus
from tui.state.pairing import DeviceView
from tui.ui.views.device_detail import device_detail
from tui.ui.views.devices import cells, columns, devices_title, level, notice, row, throttling
from tui.ui.views.lines import plain, width

KINDS: tuple[Kind, ...] = ("one gpu", "two gpus", "no gpu")
READY = MonitorStatus("ready")


def rows(*devices: Device, room: int = 80, now: float = NOW) -> list[str]:
    store = make_store("one gpu", sample(*devices))
    plan = columns(store.devices, room)
    return [
        plain(row(view, store.sample, now, plan, selected=view.key == store.selected)).rstrip()
        for view in store.devices
    ]


def facts(device: Device, now: float = NOW) -> dict[str, str]:
    return dict(device_detail(DeviceView(device.id, device), sample(device), now))


@given(st.integers(50, 300), st.sampled_from(KINDS))
def test_no_row_is_wider_than_the_pane(room: int, kind: Kind) -> None:
    store = make_store(kind)
    plan = columns(store.devices, room)
    drawn = [width(row(view, store.sample, NOW, plan, selected=True)) for view in store.devices]
    assert set(drawn) == {sum(cells(plan))}
    assert sum(cells(plan)) <= room


@pytest.mark.parametrize(
    ("room", "left_out"),
    [
        (140, set()),
        (85, {"clocks", "status"}),
        (60, {"clocks", "status", "bar"}),
        (48, {"clocks", "status", "bar", "power"}),
        (43, {"clocks", "status", "bar", "power", "temperature"}),
    ],
)
def test_columns_are_left_out_in_the_stated_order(room: int, left_out: set[str]) -> None:
    plan = columns(make_store("one gpu").devices, room)
    optional = ("clocks", "status", "bar", "power", "temperature")
    assert {name for name in optional if not getattr(plan, name)} == left_out


@pytest.mark.parametrize(
    ("reasons", "named"),
    [
        ((), ()),
        (("idle",), ()),
        (("sw_power_cap", "hw_thermal_slowdown"), ("hw_thermal_slowdown", "sw_power_cap")),
        (("idle", "sync_boost"), ("sync_boost",)),
    ],
)
def test_the_gravest_throttle_reason_comes_first(
    reasons: tuple[str, ...], named: tuple[str, ...]
) -> None:
    assert throttling(gpu(throttle=reasons)) == named


@pytest.mark.parametrize(
    ("room", "marker"),
    [
        (140, "throttled: hw_thermal, sw_power_cap"),
        (80, "throttled: hw_thermal"),
        (60, "! hw_thermal"),
    ],
)
def test_throttling_is_named_in_the_words_that_fit(room: int, marker: str) -> None:
    device = gpu(throttle=("sw_power_cap", "hw_thermal_slowdown"))
    assert marker in rows(device, room=room)[0]
    assert ("NVIDIA H200" in rows(device, room=room)[0]) == (room == 140)


def test_zero_is_drawn_as_zero_and_unknown_as_unknown() -> None:
    nothing = replace(gpu(), utilization=Utilization(None, None), temperature_c=None, power_w=None)
    (unknown, _) = rows(nothing)
    assert unknown.count("n/a") == 3
    (zero, _) = rows(gpu(utilization=Utilization(0.0, 0.0), power_w=0.0, temperature_c=0.0))
    assert "0%" in zero
    assert "0°C" in zero
    assert "0/700 W" in zero
    assert "n/a" not in zero


def test_a_lost_device_keeps_its_row_and_says_why() -> None:
    (lost, other, _cpu) = rows(gpu(0, lost="GPU is lost: reboot", lost_at=NOW - 40), gpu(1))
    # The bar and the figures are the last ones that it gave.
    assert lost.startswith("▸ cuda:0 lost 40 s ago: GPU is…   61% █")
    assert other.startswith("  nvml:1 NVIDIA H200")


def test_old_figures_carry_their_age() -> None:
    assert "12 s old" in rows(gpu(), now=NOW + 12)[0]
    assert "12 s old" in rows(gpu(), now=NOW + 12)[1]
    assert "old" not in rows(gpu(), now=NOW + 2)[0]


def test_one_device_that_is_silent_is_old_alone() -> None:
    (silent, fresh, cpu) = rows(gpu(0, read_at=NOW - 9), gpu(1, read_at=NOW))
    assert "9 s old" in silent
    assert "old" not in fresh
    assert "old" not in cpu


def test_unified_memory_is_never_shown_as_the_device_s_own() -> None:
    memory = DeviceMemory(None, None, None, None, unified=True)
    assert rows(gpu(memory=memory))[0].endswith("unified")


def test_ecc_errors_are_named() -> None:
    assert "2 ECC errors" in rows(gpu(ecc_uncorrected=2))[0]


def test_names_are_data() -> None:
    assert HOSTILE in rows(gpu(name=HOSTILE), room=160)[0]
    assert rows(gpu(name="a\nb\x1b[31m"), room=160)[0].startswith("▸ cuda:0 a b?[31m")


def test_the_cpu_s_cores_stand_where_a_gpu_has_heat_and_power() -> None:
    assert rows(gpu())[1].startswith("  cpu    AMD EPYC 9654")
    assert "16/192 cores" in rows(gpu())[1]
    assert "16/192 cores" in rows(gpu(), room=50)[1]


@pytest.mark.parametrize(
    ("percent", "drawn"),
    [(None, "    "), (0.0, "    "), (0.1, "▏   "), (50.0, "██  "), (100.0, "████")],
)
def test_a_level_is_in_parts_of_a_cell(percent: float | None, drawn: str) -> None:
    assert level(percent, 4) == drawn


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (MonitorStatus("ended", "exit code 1"), "the monitor has ended: exit code 1"),
        (MonitorStatus("restarting", "killed"), "the monitor is restarting: killed"),
        (MonitorStatus("starting"), "waiting for the monitor"),
    ],
)
def test_the_notice_says_what_is_wrong_with_the_monitor(status: MonitorStatus, words: str) -> None:
    assert notice(None, status, NOW) == words


def test_the_notice_says_what_is_wrong_with_the_driver() -> None:
    assert notice(sample(), READY, NOW).startswith("no NVIDIA driver: ")
    assert notice(sample(gpu(), nvml_silent_s=9.0), READY, NOW) == "NVML has not answered for 9 s"
    assert notice(sample(gpu(), problems=("boom",)), READY, NOW) == "monitor: boom"
    no_gpu = replace(sample(), driver=replace(sample().driver, error=None))
    assert notice(no_gpu, READY, NOW) == "the driver lists no GPU"
    assert notice(sample(gpu()), READY, NOW) == ""
    assert notice(sample(gpu()), READY, NOW + 9) == "the monitor has sent nothing for 9 s"


def test_the_detail_has_everything_with_the_reason_of_each_absence() -> None:
    device = gpu(
        clocks_mhz=Clocks(None, 3201),
        pcie=Pcie(5, None),
        throttle=("sw_power_cap",),
        parent="GPU-parent",
        unavailable={"clocks_mhz.sm": "needs root", "pcie.width": "driver too old"},
    )
    found = facts(device)
    assert found["UUID"] == uuid(0)
    assert found["SM clock"] == "n/a: needs root"
    assert found["PCIe link"] == "generation 5, width n/a: driver too old"
    assert found["fan"] == "n/a: not reported"
    assert found["throttle reasons"] == "sw_power_cap"
    assert found["ECC, uncorrected"] == "0"
    assert found["MIG instance of"] == "GPU-parent"
    assert found["torch name"].startswith("n/a: ")
    assert found["driver"] == "580.159.03, CUDA up to 13.0"


def test_the_detail_says_why_a_device_is_unpaired_lost_or_old() -> None:
    hidden = DeviceView(uuid(0), gpu(), None, "hidden by CUDA_VISIBLE_DEVICES?")
    found = dict(device_detail(hidden, sample(gpu()), NOW))
    assert found["torch name"] == "n/a: hidden by CUDA_VISIBLE_DEVICES?"
    assert facts(gpu(lost="gone", lost_at=NOW - 60))["lost"] == "gone (found 1 min ago)"
    assert "read 12 s ago" in facts(gpu(), NOW + 12)["old figures"]
    beside = sample(gpu(1))
    only_torch = make_store("one gpu", beside).devices[1]
    found = dict(device_detail(only_torch, beside, NOW))
    assert found["NVML"] == "n/a: NVML does not list this device"


def test_the_cpu_s_detail_has_the_driver_s_error_in_full() -> None:
    store = make_store("no gpu")
    found = dict(device_detail(store.devices[0], store.sample, NOW))
    assert found["GPU"].endswith("start it with --gpus all")
    assert found["cores"] == "16 usable of 192 (affinity, cgroup quota)"


@pytest.mark.parametrize(
    ("kind", "width", "title"),
    [
        ("two gpus", 60, "Devices   2 GPUs   cuda:0 NVIDIA H200 61% 20.7/139.8 GiB"),
        ("no gpu", 40, "Devices   ! no NVIDIA driver: libnvidia…"),
    ],
)
def test_a_folded_pane_says_in_its_title_what_matters(kind: Kind, width: int, title: str) -> None:
    assert devices_title(make_store(kind), NOW, width, folded=True) == title
    assert devices_title(make_store(kind), NOW, width, folded=False) in title
