"""Pace, lost devices, silence, and the way of a sample over the wire."""

from __future__ import annotations

from tui.monitor.device_reader import (
    Identity,
    find_absent_paths,
    identify_device,
    make_lost_device,
    make_unknown_identity,
)
from tui.monitor.messages import MONITOR_EVENTS, Cpu, Driver, Host, HostMemory, Sample
from tui.monitor.nvml_loop import NOT_YET, NvmlState, Schedule
from workloads.protocol.wire import decode, encode

LOST = make_lost_device(Identity("GPU-1", 0, "H200", "0:1"), "gone", read_at=2.0, lost_at=1.0)
STATE = NvmlState(Driver("580", "13.0", None), (LOST,), took_s=0.5, readings=3)


def test_a_sample_survives_the_wire() -> None:
    host = Host("box", Cpu("X", 2, 2, 1.0, 2.0), HostMemory(4, 1, 3))
    sample = Sample(9.0, 0.5, host, STATE.driver, (LOST,))

    assert decode(encode(sample), MONITOR_EVENTS) == sample


def test_a_lost_device_has_no_figure_and_one_reason() -> None:
    assert set(LOST.unavailable) == set(find_absent_paths(LOST))
    assert set(LOST.unavailable.values()) == {"gone"}
    assert {"memory.total", "throttle", "processes", "clocks_mhz.sm"} <= set(LOST.unavailable)
    assert identify_device(LOST) == Identity("GPU-1", 0, "H200", "0:1")


def test_a_device_that_never_told_its_name_is_known_by_its_index() -> None:
    assert make_unknown_identity(3) == Identity("nvml:3", 3, "GPU 3", None)


def test_silence_is_reported_in_the_drivers_line() -> None:
    quiet = STATE.describe_driver(4.2)

    assert quiet.error is not None
    assert quiet.error.startswith("NVML has not answered for 4 s")
    assert quiet.version == "580"
    assert STATE.describe_driver(None) == STATE.driver


def test_before_the_first_reading_it_is_starting_and_not_without_devices() -> None:
    error = NOT_YET.describe_driver(1.0).error

    assert error is not None
    assert error.startswith("NVML is still starting")


def test_slow_figures_are_due_every_5_seconds() -> None:
    schedule = Schedule(interval=1.0)
    due = [schedule.is_slow_due(float(second)) for second in range(11)]

    assert [at for at, one in enumerate(due) if one] == [0, 5, 10]


def test_jitter_of_the_clock_does_not_put_them_off() -> None:
    schedule = Schedule(interval=1.0)
    due = [schedule.is_slow_due(second + (0.2 if second % 2 else -0.2)) for second in range(11)]

    assert sum(due) == 3


def test_at_a_slow_pace_everything_is_due_each_time() -> None:
    schedule = Schedule(interval=10.0)

    assert all(schedule.is_slow_due(at) for at in (0.0, 10.0, 20.0))


def test_after_a_new_start_everything_is_due() -> None:
    schedule = Schedule(interval=1.0)
    schedule.is_slow_due(0.0)
    assert not schedule.is_slow_due(1.0)

    schedule.reset()

    assert schedule.is_slow_due(2.0)
