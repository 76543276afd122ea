"""What the screens keep of a device that is lost: its row, when, and its last figures as old."""

from __future__ import annotations

import time

import pytest

from tests.screens.helpers import NOW, WORKER, gpu, make_store, sample, uuid
from tui.devices.state.devices import DeviceView
from tui.devices.views.device_columns import columns
from tui.devices.views.device_detail import device_detail
from tui.devices.views.devices import device_row
from tui.devices.views.holders import holders
from tui.devices.views.process_rows import process_rows
from tui.kit.lines import TextStyle, plain
from tui.monitor.device_reader import identify_device, make_lost_device
from tui.monitor.messages import Device
from tui.runs.state.state import WorkbenchState

REASON = "GPU is lost: reset it or reboot"
LOST_AT = NOW + 10
LATER = NOW + 50


def lost(index: int = 0, reason: str = REASON) -> Device:
    """As the monitor tells of it: a row without figures."""
    return make_lost_device(identify_device(gpu(index)), reason, read_at=LATER, lost_at=LOST_AT)


def after_a_loss() -> WorkbenchState:
    state = make_store("two gpus", sample(gpu(0, read_at=NOW), gpu(1, read_at=NOW)))
    state.publish(sample(lost(), gpu(1), at=LOST_AT))
    state.publish(sample(lost(), gpu(1), at=LATER))
    return state


def first(state: WorkbenchState) -> DeviceView:
    return state.machine.devices[0]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_t8_the_row_says_since_when_and_shows_the_last_figures_in_quiet(width: int) -> None:
    state = after_a_loss()
    plan = columns(state.machine.devices, width)
    spans = device_row(first(state), state.machine.sample, LATER, plan, selected=True)
    drawn = plain(spans)
    assert drawn.startswith("▸ cuda:0 lost 40 s ago")
    for figure in ("61%", "45°C", "310/700 W", "20.7/139.8G"):
        assert figure in drawn
    assert {span.style for span in spans if "61%" in span.text} == {TextStyle.QUIET}
    assert len(drawn) <= width
    # The other one stands in the same columns.
    other = plain(
        device_row(state.machine.devices[1], state.machine.sample, LATER, plan, selected=False)
    )
    assert other.index("74/700 W") + len("74/700 W") == drawn.index("310/700 W") + len("310/700 W")
    assert "lost" not in other


def test_t8_where_there_is_no_room_for_both_the_row_says_why() -> None:
    state = after_a_loss()
    plan = columns(state.machine.devices, 50)
    drawn = plain(device_row(first(state), state.machine.sample, LATER, plan, selected=False))
    assert "lost 40 s ago: GPU is lost" in drawn
    assert "61%" not in drawn


def test_t8_the_detail_has_the_reason_the_time_and_the_last_figures() -> None:
    state = after_a_loss()
    facts = dict(device_detail(first(state), state.machine.sample, LATER))
    assert facts["lost"] == f"{REASON} (found 40 s ago)"
    assert facts["lost at"] == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(LOST_AT))
    assert facts["last figures"] == "read 50 s ago"
    assert facts["temperature"] == "45°C"


def test_t8_the_list_of_processes_is_the_last_one_and_says_so() -> None:
    state = after_a_loss()
    found = holders(first(state), state.machine.sample, LATER)
    rows = process_rows(
        state.machine.devices,
        state.machine.sample,
        of_host=False,
        worker_pid=None,
        pattern="",
        order="pid",
        before=(),
    )
    assert WORKER in [listed.pid for listed in rows]
    assert found.notes[0] == f"lost: {REASON}; these are its last figures, read 50 s ago"


def test_t7_a_device_that_was_lost_from_the_start_has_no_last_figures() -> None:
    state = WorkbenchState()
    state.publish(sample(lost(), at=LATER))
    assert first(state).before_loss is None
    assert holders(first(state), state.machine.sample, LATER).notes[0] == f"lost: {REASON}"
    plan = columns(state.machine.devices, 80)
    drawn = plain(device_row(first(state), state.machine.sample, LATER, plan, selected=False))
    assert f"lost 40 s ago: {REASON}" in drawn


def test_t9_a_device_that_comes_back_has_its_own_figures_again() -> None:
    state = after_a_loss()
    state.publish(sample(gpu(0, temperature_c=33.0), gpu(1), at=LATER + 1))
    assert first(state).before_loss is None
    assert first(state).nvml is not None
    assert first(state).nvml == gpu(0, temperature_c=33.0)


def test_t23_what_is_kept_goes_with_the_device() -> None:
    state = after_a_loss()
    state.publish(sample(gpu(1), at=LATER + 1))
    state.publish(sample(lost(), gpu(1), at=LATER + 2))
    assert first(state).key == uuid(0)
    assert first(state).before_loss is None
