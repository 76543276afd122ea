"""The rows of the devices pane: what fits, what is left out, what stands in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, HOSTILE, NOW, Kind, gpu, make_store, sample, uuid
from tui.core.events import MonitorStatus
from tui.core.text import glyphs
from tui.devices.cli.devices import as_text
from tui.devices.state.devices import DeviceView, pair
from tui.devices.views.device_columns import (
    DeviceColumns,
    columns,
    deep_columns,
    find_order,
    heading,
    measure_row,
    shorten_cpu_model,
    shorten_name,
)
from tui.devices.views.device_detail import device_detail
from tui.devices.views.devices import (
    LimitLevel,
    device_row,
    devices_title,
    notice,
    notice_lines,
    rank_heat,
    rank_memory,
    rank_power,
    rank_throttle_reasons,
    split_row,
)
from tui.devices.views.history import draw_loads, format_span
from tui.kit.lines import Line, Span, TextStyle, plain, width
from tui.monitor.messages import Clocks, Device, DeviceMemory, Driver, Pcie, Sample, Utilization

KINDS: tuple[Kind, ...] = ("one gpu", "two gpus", "no gpu")
READY = MonitorStatus("ready")


def rows(*devices: Device, room: int = 80, now: float = NOW) -> list[str]:
    state = make_store("one gpu", sample(*devices))
    plan = columns(state.machine.devices, room)
    return [
        plain(
            device_row(
                view, state.machine.sample, now, plan, selected=view.key == state.machine.selected
            )
        ).rstrip()
        for view in state.machine.devices
    ]


def deep_row(
    view: DeviceView, seen: Sample | None, plan: DeviceColumns, **more: Any
) -> tuple[Line, Line]:
    row = device_row(view, seen, NOW, plan, **{"selected": False, **more})
    return split_row(row, view, plan)


def facts(device: Device, now: float = NOW) -> dict[str, str]:
    return dict(device_detail(DeviceView(device.id, device), sample(device), now))


def box(*devices: Device, room: int) -> list[Line]:
    state = make_store("one gpu", sample(*devices))
    plan = columns(state.machine.devices, room)
    return [
        device_row(view, state.machine.sample, NOW, plan, selected=False)
        for view in state.machine.devices
    ]


MIXED = (gpu(0), gpu(1, name="NVIDIA A100-SXM4-80GB"))


@given(st.integers(36, 300), st.sampled_from(KINDS), st.booleans())
def test_every_row_and_the_headings_fill_the_pane(room: int, kind: Kind, mixed: bool) -> None:
    state = make_store(kind, *([sample(*MIXED)] if mixed else []))
    plan = columns(state.machine.devices, room)
    drawn = [
        width(device_row(view, state.machine.sample, NOW, plan, selected=True))
        for view in state.machine.devices
    ]
    assert set(drawn) == {measure_row(plan)} == {room}
    assert width(heading(plan, "load")) <= room


@pytest.mark.parametrize("room", [59, 60, 80, 99, 120, 200])
def test_at_every_width_there_are_two_bars_heat_and_power(room: int) -> None:
    plan = columns(make_store("two gpus").machine.devices, room)
    assert plan.load >= 6
    assert plan.filled >= 6
    assert plan.temperature
    assert plan.power
    assert bool(plan.history) == (room >= 96)


def test_what_a_wider_row_has_besides_comes_in_the_stated_order() -> None:
    actual: list[str] = []
    for room in range(30, 300):
        plan = columns(make_store("one gpu", sample(*MIXED)).machine.devices, room)
        for name in ("temperature", "power", "name", "history", "status", "clocks"):
            if getattr(plan, name) and name not in actual:
                actual.append(name)
    assert actual == ["temperature", "power", "name", "history", "status", "clocks"]


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 HBM3"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4"),
        ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA H200 MIG 1g.18gb", "H200 MIG 1g.18gb"),
        ("NVIDIA 80GB", "80GB"),
    ],
)
def test_a_name_has_neither_the_maker_nor_the_size_of_the_memory(full: str, short: str) -> None:
    assert shorten_name(DeviceView("x", gpu(name=full))) == short


def test_a_name_that_all_share_stands_in_the_title_and_different_ones_in_their_rows() -> None:
    same = make_store("one gpu", sample(gpu(0), gpu(1)))
    assert "2x H200" in devices_title(same.machine, NOW, 80, folded=False)
    assert not columns(same.machine.devices, 120).name
    simulated = [gpu(index, name="simulated") for index in range(2)]
    demo = make_store("one gpu", sample(*simulated))
    assert "2 simulated GPUs" in devices_title(demo.machine, NOW, 80, folded=False)
    mixed = make_store("one gpu", sample(*MIXED))
    assert "H200" not in devices_title(mixed.machine, NOW, 80, folded=False)
    drawn = list(map(plain, box(*MIXED, room=80)))
    assert "H200" in drawn[0]
    assert "A100-SXM4" in drawn[1]
    assert shorten_cpu_model("AMD EPYC 9654 96-Core Processor") in plain(box(*MIXED, room=120)[2])


def test_what_is_wrong_with_a_gpu_is_not_what_a_title_is_cut_at() -> None:
    hot, capped = gpu(0, throttle=("hw_thermal_slowdown",)), gpu(1, throttle=("sw_power_cap",))
    state = make_store("one gpu", sample(hot, capped))
    for room in range(50, 90):
        title = devices_title(state.machine, NOW, room, folded=False, order="load")
        assert "! cuda:0 " in title
        assert "thermal" in title
        assert title.endswith(("   \u25b4 1 at power cap", "cuda:1 at cap", "1 at cap"))
    assert "by load" in title
    assert "! cuda:0 throttled: thermal" in title


def test_several_slow_gpus_are_counted_and_a_common_reason_is_named() -> None:
    hot = [gpu(index, throttle=("hw_thermal_slowdown",)) for index in range(2)]
    slow = gpu(2, throttle=("hw_power_brake_slowdown",))
    same = devices_title(make_store("one gpu", sample(*hot, gpu(2))).machine, NOW, 80, folded=False)
    assert same.endswith("   ! 2 throttled: thermal")
    mixed = devices_title(make_store("one gpu", sample(*hot, slow)).machine, NOW, 80, folded=False)
    assert mixed.endswith("   ! 3 throttled")


def test_the_reason_for_lower_clocks_stands_below_the_label_of_a_device_of_two_lines() -> None:
    machine = make_store(
        "one gpu", sample(gpu(0, throttle=("hw_thermal_slowdown",)), gpu(1))
    ).machine
    plan = deep_columns(machine.devices, 44)
    below = [plain(deep_row(view, machine.sample, plan)[1]) for view in machine.devices]
    assert below[0].startswith("!thermal ")
    assert not below[1][: plan.label + 2].strip()


@pytest.mark.parametrize("kind", KINDS)
@given(cells=st.integers(36, 60), selected=st.booleans())
def test_both_lines_of_a_device_fill_the_width(kind: Kind, cells: int, selected: bool) -> None:
    machine = make_store(kind).machine
    plan = deep_columns(machine.devices, cells)
    history = (Span("\u2585" * plan.load, TextStyle.GOOD),)
    for view in machine.devices:
        lines = deep_row(view, machine.sample, plan, selected=selected, history=history)
        assert [width(line) for line in lines] == [cells, cells]
        assert view.label in plain(lines[0])
        assert "/" in plain(lines[1])
    assert width(heading(plan, "index")) <= cells


@pytest.mark.parametrize("gpus", [4, 5])
@pytest.mark.parametrize("cells", [42, 58])
def test_the_rows_of_more_than_four_gpus_have_histories_in_place_of_bars(
    cells: int, gpus: int
) -> None:
    devices = [gpu(at, utilization=Utilization(at * 20.0, 0)) for at in range(gpus)]
    samples = [sample(*devices, at=NOW + at) for at in range(60)]
    machine = make_store("one gpu", *samples).machine
    plan = (deep_columns if cells < 50 else columns)(machine.devices, cells)
    assert plan.traced == (gpus > 4)
    loads = draw_loads(machine, NOW + 60, plan.trace)
    view = machine.devices[3]
    row = device_row(
        view, machine.sample, NOW + 60, plan, selected=False, history=loads.rows[view.key]
    )
    assert ("\u2585" * 4 in plain(row)) == (gpus > 4)
    # Only the single line has room for the duration.
    named = f"util, {format_span(loads.span_s)}" if gpus > 4 and cells > 50 else "util "
    assert named in plain(heading(plan, "index", loads))


def test_old_histories_are_quiet() -> None:
    devices = [gpu(at) for at in range(5)]
    machine = make_store("one gpu", *(sample(*devices, at=NOW + at) for at in range(60))).machine
    plan = columns(machine.devices, 58)
    history = draw_loads(machine, NOW + 60, plan.trace).rows[uuid(0)]
    for now, style in ((NOW + 60, TextStyle.GOOD), (NOW + 600, TextStyle.QUIET)):
        view = machine.devices[0]
        row = device_row(view, machine.sample, now, plan, selected=False, history=history)
        assert styles(row, plain(history[-1:])) is style


def test_the_first_line_of_a_lost_device_has_the_reason() -> None:
    lost = gpu(0, lost="GPU is lost", lost_at=NOW - 5)
    plan = deep_columns((DeviceView("cuda:0", lost),), 50)
    first, second = deep_row(DeviceView("cuda:0", lost), sample(lost), plan)
    assert "lost" in plain(first)
    assert second == ()


def test_a_heading_sorts_by_the_column_below_it() -> None:
    plan = columns(make_store("two gpus").machine.devices, 80)
    drawn = plain(heading(plan, "load"))
    assert "util▾" in drawn
    for word, order in (("gpu", "index"), ("util", "load"), ("memory", "memory"), ("temp", "heat")):
        assert find_order(plan, drawn.index(word)) == order
    assert find_order(plan, drawn.index("power")) is None
    assert find_order(plan, 500) is None


def styles(line: Line, text: str) -> TextStyle:
    return next(span.style for span in line if text in span.text)


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"temperature_c": 60.0}, LimitLevel.USUAL),
        ({"temperature_c": 84.0}, LimitLevel.NEAR),
        ({"temperature_c": 91.0}, LimitLevel.AT),
        ({"temperature_c": 99.0, "slowdown_c": None}, LimitLevel.USUAL),
        ({"temperature_c": None}, LimitLevel.USUAL),
        ({"temperature_c": 60.0, "throttle": ("hw_thermal_slowdown",)}, LimitLevel.FAULT),
        ({"temperature_c": 60.0, "throttle": ("sw_power_cap", "idle")}, LimitLevel.USUAL),
    ],
)
def test_heat_is_ranked_by_the_devices_own_threshold(
    changes: dict[str, object], level: LimitLevel
) -> None:
    device = replace(gpu(slowdown_c=93.0), **changes)  # type: ignore[arg-type]
    assert rank_heat(device) is level
    assert rank_heat(None) is LimitLevel.USUAL


def test_a_hot_device_is_red_at_its_label_and_temperature_but_not_at_its_load() -> None:
    burning = gpu(0, slowdown_c=93.0, temperature_c=92.0, utilization=Utilization(50.0, 1.0))
    hot, cool = box(burning, gpu(1, slowdown_c=93.0), room=80)[:2]
    assert hot[0].style is TextStyle.BAD
    assert styles(hot, "92°C") is TextStyle.BAD
    assert styles(hot, "■") is TextStyle.GOOD
    assert TextStyle.BAD not in {span.style for span in cool}


@pytest.mark.parametrize(
    ("power", "throttle", "level"),
    [
        (500.0, (), LimitLevel.USUAL),
        (690.0, (), LimitLevel.NEAR),
        (500.0, ("sw_power_cap",), LimitLevel.NEAR),
        (500.0, ("hw_power_brake_slowdown",), LimitLevel.FAULT),
        (None, (), LimitLevel.USUAL),
    ],
)
def test_power_is_ranked_by_its_cap(
    power: float | None, throttle: tuple[str, ...], level: LimitLevel
) -> None:
    assert rank_power(gpu(power_w=power, throttle=throttle)) is level


@pytest.mark.parametrize(("share", "level"), [(None, 0), (0.0, 0), (0.94, 0), (0.95, 1), (1.0, 1)])
def test_memory_is_ranked_by_its_share(share: float | None, level: int) -> None:
    assert rank_memory(share) is (LimitLevel.USUAL, LimitLevel.NEAR)[level]


@pytest.mark.parametrize("room", [59, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_each_figure_at_its_limit_has_a_sign_directly_before_it(
    room: int, ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII if ascii_only else glyphs.UNICODE)
    sign, degree = glyphs.GLYPHS.limit, glyphs.GLYPHS.degree
    total = 80 * GIB
    full = DeviceMemory(total, total - GIB, GIB, 0)
    usual = gpu(slowdown_c=93.0, temperature_c=50.0, power_w=500.0)
    cases = {
        "": usual,
        "79.0/80.0": replace(usual, memory=full),
        f"84{degree}C": replace(usual, temperature_c=84.0),
        f"92{degree}C": replace(usual, temperature_c=92.0),
        "690": replace(usual, power_w=690.0),
    }
    for figure, device in cases.items():
        row = rows(device, room=room)[0]
        assert row.count(sign) == bool(figure), row
        assert f"{sign}{figure}" in row or not figure, row
    slow = replace(usual, throttle=("hw_thermal_slowdown",), temperature_c=91.0)
    assert f"!91{degree}C" in rows(slow, room=room)[0]
    brake = replace(usual, throttle=("hw_power_brake_slowdown",))
    assert "!500" in rows(brake, room=room)[0]


def test_a_sign_and_its_color_go_together() -> None:
    total = 80 * GIB
    full = gpu(memory=DeviceMemory(total, total - GIB, GIB, 0))
    assert styles(box(full, room=80)[0], "▴79.0") is TextStyle.NOTE
    assert TextStyle.NOTE not in {span.style for span in box(gpu(), room=80)[0]}


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
    assert rank_throttle_reasons(gpu(throttle=reasons)) == named


@pytest.mark.parametrize(
    ("room", "marker"),
    [
        (200, "throttled: hw_thermal"),
        (100, "!thermal"),
        (80, "!thermal"),
    ],
)
def test_throttling_is_named_in_the_words_that_fit(room: int, marker: str) -> None:
    device = gpu(throttle=("sw_power_cap", "hw_thermal_slowdown"))
    assert rows(device, room=room)[0].rstrip().endswith(marker)


@pytest.mark.parametrize("room", [50, 59, 80, 100, 200])
def test_throttling_leaves_the_memory_bar_and_marks_the_temperature(room: int) -> None:
    device = gpu(throttle=("sw_power_cap", "hw_thermal_slowdown"))
    row = rows(device, room=room)[0]
    bar = row.partition("%")[2].partition("20.7")[0].strip()
    assert bar
    assert set(bar) <= set("■╸·")
    assert "!45°C" in row


def test_a_power_cap_alone_takes_no_cells_from_the_bars() -> None:
    capped = replace(gpu(), throttle=("sw_power_cap",))
    assert columns(make_store("one gpu", sample(capped)).machine.devices, 80).status == 0
    assert "sw_power" not in rows(capped, gpu(1, throttle=("hw_slowdown",)), room=80)[0]


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
    assert lost.startswith("▸ cuda:0 lost 40 s ago: GPU is lost: reboot ")
    assert " 61% " in lost
    assert "45°C" in lost
    assert other.startswith("  nvml:1 ")


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
    assert " unified " in rows(gpu(memory=memory))[0]


def test_ecc_errors_are_named() -> None:
    assert "2 ECC errors" in rows(gpu(ecc_uncorrected=2))[0]


def test_names_are_data() -> None:
    assert HOSTILE[:12] in rows(gpu(0), gpu(1, name=HOSTILE), room=160)[1]
    junk = gpu(1, name="a\nb\x1b[31m")
    assert rows(gpu(0), junk, room=160)[1].startswith("  nvml:1 a b?[31m")


def test_the_cpu_s_cores_stand_where_a_gpu_has_heat_and_power() -> None:
    assert "    16 cores" in rows(gpu())[1]
    assert "    16 cores" in rows(gpu(), room=59)[1]


def test_an_idle_gpu_has_empty_bars_and_an_unknown_level_none() -> None:
    empty = DeviceMemory(80 * GIB, 0, 80 * GIB, 0)
    (idle, _) = rows(gpu(utilization=Utilization(0.0, 0.0), memory=empty), room=59)
    plan = columns(make_store("one gpu", sample(gpu())).machine.devices, 59)
    assert f" {'·' * plan.load}   0% {'·' * plan.filled} " in idle
    unified = DeviceMemory(None, None, None, None, unified=True)
    (unknown, _) = rows(gpu(utilization=Utilization(None, None), memory=unified), room=59)
    assert "·" not in unknown


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


def test_a_narrow_row_has_wide_bars_and_names_no_total() -> None:
    narrow, wide = rows(gpu(), room=48)[0], rows(gpu(), room=60)[0]
    assert "20.7G" in narrow
    assert "20.7/139.8G" in wide
    assert columns(make_store("one gpu").machine.devices, 48).load >= 5


def test_a_missing_driver_is_no_failure() -> None:
    def styles(seen: Sample) -> set[TextStyle]:
        return {span.style for line in notice_lines(seen, READY, NOW, 80, 3) for span in line}

    assert styles(sample()) == {TextStyle.NOTE}
    broken = Driver(None, None, "NVML failed: driver/library version mismatch")
    assert styles(replace(sample(), driver=broken)) == {TextStyle.BAD}


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
    actual = facts(device)
    assert actual["UUID"] == uuid(0)
    assert actual["SM clock"] == "n/a: needs root"
    assert actual["PCIe link"] == "generation 5, width n/a: driver too old"
    assert actual["fan"] == "n/a: not reported"
    assert actual["clocks limited by"] == "sw_power_cap"
    assert actual["ECC, uncorrected"] == "0"
    assert actual["MIG instance of"] == "GPU-parent"
    assert actual["torch name"].startswith("n/a: ")
    assert actual["driver"] == "580.159.03, CUDA up to 13.0"


def test_the_detail_says_why_a_device_is_unpaired_lost_or_old() -> None:
    hidden = DeviceView(uuid(0), gpu(), None, "hidden by CUDA_VISIBLE_DEVICES?")
    actual = dict(device_detail(hidden, sample(gpu()), NOW))
    assert actual["torch name"] == "n/a: hidden by CUDA_VISIBLE_DEVICES?"
    assert facts(gpu(lost="gone", lost_at=NOW - 60))["lost"] == "gone (found 1 min ago)"
    assert "read 12 s ago" in facts(gpu(), NOW + 12)["old figures"]
    beside = sample(gpu(1))
    only_torch = make_store("one gpu", beside).machine.devices[1]
    actual = dict(device_detail(only_torch, beside, NOW))
    assert actual["NVML"] == "n/a: NVML does not list this device"


def test_the_cpu_s_detail_has_the_driver_s_error_in_full() -> None:
    state = make_store("no gpu")
    actual = dict(device_detail(state.machine.devices[0], state.machine.sample, NOW))
    assert actual["GPU"].endswith("start it with --gpus all")
    assert actual["cores"] == "16 usable of 192 (affinity, cgroup quota)"


@pytest.mark.parametrize(
    ("kind", "width", "title"),
    [
        ("two gpus", 60, "Devices   2x H200   cuda:0 61% 20.7/139.8G"),
        ("no gpu", 40, "Devices   ! no NVIDIA driver: libnvidia…"),
    ],
)
def test_a_folded_pane_says_in_its_title_what_matters(kind: Kind, width: int, title: str) -> None:
    assert devices_title(make_store(kind).machine, NOW, width, folded=True) == title
    assert devices_title(make_store(kind).machine, NOW, width, folded=False) in title


def test_the_printed_figures_stand_below_each_other() -> None:
    hot = ("sw_thermal_slowdown", "idle")
    busy = gpu(0, utilization=Utilization(100.0, 9.0), throttle=hot)
    seen = sample(busy, gpu(1, utilization=Utilization(0.0, 0.0), throttle=("idle",)))
    _, first, second, _ = as_text(seen, pair(seen.devices, ())).splitlines()
    assert first.index("100%") + 4 == second.index("0%") + 2
    assert first.index("MHz") == second.index("MHz")
    assert first.endswith("MHz  sw_thermal_slowdown")
    # That nothing runs is no reason to report.
    assert second.endswith("MHz")
