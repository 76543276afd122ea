"""Figures are called old when a sample is overdue, however far apart samples are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.helpers import (
    NOW,
    environment,
    feed,
    gpu,
    hello,
    host_heap,
    sample,
    torch_gpu,
    torch_memory,
)
from tui.devices.memory import account
from tui.devices.memory.model import Stale
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import LATE_S, stale_after
from tui.devices.views.device_detail import device_detail
from tui.devices.views.devices import format_status, notice
from tui.devices.views.holders import holders
from tui.monitor.monitor import Monitor
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages

INTERVALS = (0.25, 1.0, 5.0, 60.0)
Says = Callable[[WorkbenchState, float], bool]


def watched(interval: float) -> WorkbenchState:
    """Return a state whose newest sample has that interval."""
    state = WorkbenchState()
    feed(
        state,
        hello(),
        messages.Ready(environment(torch_gpu(0)), 1.0),
        messages.WorkerStarted(4242),
        torch_memory(),
        host_heap(),
        sample(gpu(0), interval_s=interval),
    )
    return state


def gauge_says(state: WorkbenchState, now: float) -> bool:
    gauge = account(state.machine, state.machine.selected_device, now)
    return any(isinstance(term.bytes, Stale) for term in gauge.terms)


def host_gauge_says(state: WorkbenchState, now: float) -> bool:
    gauge = account(state.machine, DeviceView(CPU), now)
    return any(isinstance(term.bytes, Stale) for term in gauge.terms)


def row_says(state: WorkbenchState, now: float) -> bool:
    return "old" in format_status(state.machine.selected_device, state.machine.sample, now, 60).text


def notice_says(state: WorkbenchState, now: float) -> bool:
    return "sent nothing" in notice(state.machine.sample, state.machine.monitor, now)


def detail_says(state: WorkbenchState, now: float) -> bool:
    return "old figures" in dict(
        device_detail(state.machine.selected_device, state.machine.sample, now)
    )


def cpu_detail_says(state: WorkbenchState, now: float) -> bool:
    return "old figures" in dict(device_detail(DeviceView(CPU), state.machine.sample, now))


def processes_say(state: WorkbenchState, now: float) -> bool:
    actual = holders(state.machine.selected_device, state.machine.sample, now)
    return any("old figures" in note for note in actual.notes)


EVERYWHERE = (
    gauge_says,
    host_gauge_says,
    row_says,
    notice_says,
    detail_says,
    cpu_detail_says,
    processes_say,
)


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("says", EVERYWHERE)
def test_figures_are_current_until_the_next_sample_is_overdue(says: Says, interval: float) -> None:
    state = watched(interval)
    assert not says(state, NOW + interval + LATE_S - 0.1)
    assert says(state, NOW + interval + LATE_S + 0.1)


def test_without_nvml_the_worker_s_own_figures_are_current_as_long() -> None:
    state = WorkbenchState()
    feed(
        state,
        messages.Ready(environment(torch_gpu(0)), 1.0),
        messages.WorkerStarted(4242),
        torch_memory(),
        sample(interval_s=30.0),
    )
    assert not gauge_says(state, NOW + 31)
    assert gauge_says(state, NOW + 33)


def test_a_reading_that_takes_longer_than_the_interval_sets_the_pace() -> None:
    assert stale_after(sample(interval_s=1.0, took_s=7.0)) == 7.0 + LATE_S
    assert stale_after(None) == 1.0 + LATE_S


def test_a_sample_says_how_far_apart_they_come() -> None:
    assert Monitor(7.5).sample(0.0).interval_s == 7.5
