"""The conditions of a run: the samples that fall into it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from tests.screens.helpers import environment, gpu, sample
from tui.devices.messages import Clocks, Device, GpuProcess
from tui.session.conditions import (
    NOT_SAMPLED,
    TOO_SHORT,
    SampledDevice,
    during,
    sampled,
    under,
    unsampled,
)


def _at(moment: float, device: Device) -> tuple[SampledDevice, ...]:
    return sampled(replace(sample(replace(device, read_at=moment)), at=moment))


def _device(clock: int, *throttle: str) -> Device:
    return replace(gpu(0), clocks_mhz=Clocks(clock, 3201), throttle=throttle)


def test_samples_before_and_after_the_run_do_not_count() -> None:
    samples = [_at(0.0, _device(345)), _at(1.0, _device(1980)), _at(2.0, _device(345))]
    found = during(samples, gpu(0).id, None, (0, 9), [(0.5, 1.5)])
    assert (found.samples, found.sm_clock_mhz_min) == (1, 1980)


def test_a_run_without_a_sample_says_why_it_knows_nothing() -> None:
    found = during([_at(0.0, _device(345))], gpu(0).id, None, (0, 9), [(0.5, 0.6)])
    assert found.sm_clock_mhz_min is None
    assert found.unavailable["sm_clock_mhz_min"] == TOO_SHORT


def test_heat_marks_the_run_and_a_power_cap_does_not() -> None:
    capped = during([_at(1.0, _device(1500, "sw_power_cap"))], gpu(0).id, None, (0, 9), [(0, 2)])
    assert capped.throttle == ("sw_power_cap",)
    assert capped.warnings == ()
    samples = [_at(1.0, _device(1500, "sw_power_cap")), _at(1.5, _device(900, "hw_slowdown"))]
    hot = during(samples, gpu(0).id, None, (0, 9), [(0, 2)])
    assert hot.throttle == ("hw_slowdown", "sw_power_cap")
    assert hot.warnings == ("throttled: hw_slowdown",)


def test_between_two_timed_spans_the_device_may_idle() -> None:
    samples = [_at(1.0, _device(1980)), _at(2.0, _device(345)), _at(3.0, _device(1965))]
    found = during(samples, gpu(0).id, None, (0, 9), [(0.5, 1.5), (2.5, 3.5)])
    assert (found.samples, found.sm_clock_mhz_min) == (2, 1965)


def test_threads_versions_and_flags_go_with_it_and_what_is_not_there_is_left_out() -> None:
    flags = {"mkldnn.enabled": True}
    found = under(unsampled(NOT_SAMPLED), environment(), None, flags)
    assert found.threads == environment().threads
    assert found.versions["torch"] == environment().torch
    assert "driver" not in found.versions
    assert found.flags == flags
    assert found.unavailable["power_w_max"] == NOT_SAMPLED


def test_other_devices_do_not_count() -> None:
    assert during([_at(1.0, gpu(1))], gpu(0).id, None, (0, 9), [(0, 2)]).samples == 0


def test_a_lost_device_has_no_conditions() -> None:
    lost = replace(gpu(0), lost="GPU is lost")
    assert during([_at(1.0, lost)], gpu(0).id, None, (0, 9), [(0, 2)]).samples == 0


def test_the_memory_of_the_process_counts_over_the_whole_run() -> None:
    ours = GpuProcess(77, "u", "python", 5 * 2**30, "compute", started_at=1.0)
    busy = replace(_device(1980), processes=(ours,))
    found = during([_at(0.2, busy), _at(1.0, _device(1980))], gpu(0).id, 77, (0, 9), [(0.5, 1.5)])
    assert found.process_peak == 5 * 2**30
    assert found.samples == 1


def test_a_process_that_cannot_be_known_for_ours_does_not_count() -> None:
    somebody = GpuProcess(77, None, None, 5 * 2**30, "compute", started_at=None)
    busy = replace(_device(1980), processes=(somebody,))
    found = during([_at(1.0, busy)], gpu(0).id, 77, (0, 9), [(0, 2)])
    assert found.process_peak is None
    assert found.unavailable["process_peak"]
