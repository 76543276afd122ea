"""The conditions of a run: the samples that fall into it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from tests.screens.helpers import environment, gpu, make_store, sample
from tests.screens.results import result
from tui.devices.session.monitor_supervisor import SampledDevice, sampled
from tui.monitor.messages import Clocks, Device, GpuProcess
from tui.runs.session.conditions import (
    MeasuredDevice,
    add_environment,
    build_conditions,
    make_unsampled_conditions,
    summarize_samples,
)
from tui.runs.state.runs import NOT_SAMPLED, TOO_SHORT
from workloads.protocol import messages
from workloads.protocol.results import MeasuredSpan


def _at(moment: float, device: Device) -> tuple[SampledDevice, ...]:
    return sampled(replace(sample(replace(device, read_at=moment)), at=moment))


def _device(clock: int, *throttle: str) -> Device:
    return replace(gpu(0), clocks_mhz=Clocks(clock, 3201), throttle=throttle)


def _worked(*spans: tuple[float, float], index: int = 0) -> MeasuredDevice:
    return MeasuredDevice(gpu(index).id, f"cuda:{index}", spans)


def test_samples_before_and_after_the_run_do_not_count() -> None:
    samples = [_at(0.0, _device(345)), _at(1.0, _device(1980)), _at(2.0, _device(345))]
    found = summarize_samples(samples, [_worked((0.5, 1.5))], [], (0, 9))
    assert (found.samples, found.sm_clock_mhz_min) == (1, 1980)


def test_a_run_without_a_sample_says_why_it_knows_nothing() -> None:
    found = summarize_samples([_at(0.0, _device(345))], [_worked((0.5, 0.6))], [], (0, 9))
    assert found.sm_clock_mhz_min is None
    assert found.unavailable["sm_clock_mhz_min"] == TOO_SHORT


def test_heat_marks_the_run_and_a_power_cap_does_not() -> None:
    capped = summarize_samples(
        [_at(1.0, _device(1500, "sw_power_cap"))], [_worked((0, 2))], [], (0, 9)
    )
    assert capped.throttle == ("sw_power_cap",)
    assert capped.warnings == ()
    samples = [_at(1.0, _device(1500, "sw_power_cap")), _at(1.5, _device(900, "hw_slowdown"))]
    hot = summarize_samples(samples, [_worked((0, 2))], [], (0, 9))
    assert hot.throttle == ("hw_slowdown", "sw_power_cap")
    assert hot.warnings == ("throttled: hw_slowdown",)


def test_between_two_timed_spans_the_device_may_idle() -> None:
    samples = [_at(1.0, _device(1980)), _at(2.0, _device(345)), _at(3.0, _device(1965))]
    found = summarize_samples(samples, [_worked((0.5, 1.5), (2.5, 3.5))], [], (0, 9))
    assert (found.samples, found.sm_clock_mhz_min) == (2, 1965)


def test_threads_versions_and_flags_go_with_it_and_what_is_not_there_is_left_out() -> None:
    flags = {"mkldnn.enabled": True}
    found = add_environment(make_unsampled_conditions(NOT_SAMPLED), environment(), None, flags)
    assert found.threads == environment().threads
    assert found.versions["torch"] == environment().torch
    assert "driver" not in found.versions
    assert found.flags == flags
    assert found.unavailable["power_w_max"] == NOT_SAMPLED


def test_other_devices_do_not_count() -> None:
    assert summarize_samples([_at(1.0, gpu(1))], [_worked((0, 2))], [], (0, 9)).samples == 0


def test_a_device_that_was_slowed_down_beside_others_is_named() -> None:
    cool, hot = (
        _device(1980, "gpu_idle"),
        replace(gpu(1), clocks_mhz=Clocks(900, 3201), throttle=("hw_slowdown",), temperature_c=91),
    )
    samples = [_at(1.0, cool), _at(1.1, hot)]
    both = summarize_samples(samples, [_worked((0, 2)), _worked((0, 2), index=1)], [], (0, 9))
    assert (both.samples, both.devices) == (2, ("cuda:0", "cuda:1"))
    assert (both.sm_clock_mhz_min, both.temperature_c_max) == (900, 91)
    assert both.throttle == ("gpu_idle", "hw_slowdown")
    assert both.warnings == ("cuda:1 throttled: hw_slowdown",)


def test_a_device_counts_only_while_it_worked() -> None:
    first, second = _device(1980), replace(gpu(1), clocks_mhz=Clocks(345, 3201), throttle=())
    samples = [_at(1.0, first), _at(1.1, second)]
    found = summarize_samples(samples, [_worked((0, 2)), _worked((3, 4), index=1)], [], (0, 9))
    assert (found.devices, found.sm_clock_mhz_min) == (("cuda:0",), 1980)


def test_the_memory_of_ranks_is_that_of_the_largest() -> None:
    def with_rank(index: int, pid: int, gib: int) -> Device:
        rank = GpuProcess(pid, "u", "python", gib * 2**30, "compute", started_at=1.0)
        return replace(gpu(index), processes=(rank,))

    samples = [_at(1.0, with_rank(0, 71, 5)), _at(1.0, with_rank(1, 72, 7))]
    followed = [_worked((0, 2)), _worked((0, 2), index=1)]
    assert summarize_samples(samples, followed, [71, 72], (0, 9)).process_peak == 7 * 2**30
    assert summarize_samples(samples, followed, [71], (0, 9)).process_peak == 5 * 2**30


def test_a_lost_device_has_no_conditions() -> None:
    lost = replace(gpu(0), lost="GPU is lost")
    assert summarize_samples([_at(1.0, lost)], [_worked((0, 2))], [], (0, 9)).samples == 0


def test_the_memory_of_the_process_counts_over_the_whole_run() -> None:
    ours = GpuProcess(77, "u", "python", 5 * 2**30, "compute", started_at=1.0)
    busy = replace(_device(1980), processes=(ours,))
    found = summarize_samples(
        [_at(0.2, busy), _at(1.0, _device(1980))], [_worked((0.5, 1.5))], [77], (0, 9)
    )
    assert found.process_peak == 5 * 2**30
    assert found.samples == 1


def test_a_process_that_cannot_be_known_for_ours_does_not_count() -> None:
    somebody = GpuProcess(77, None, None, 5 * 2**30, "compute", started_at=None)
    busy = replace(_device(1980), processes=(somebody,))
    found = summarize_samples([_at(1.0, busy)], [_worked((0, 2))], [77], (0, 9))
    assert found.process_peak is None
    assert found.unavailable["process_peak"]


def test_a_run_is_followed_on_every_device_that_its_spans_name() -> None:
    spans = (MeasuredSpan(0.0, 2.0, ("cuda:0",)), MeasuredSpan(3.0, 5.0, ("cuda:0", "cuda:1")))
    state = make_store("two gpus")
    hot = replace(gpu(1), clocks_mhz=Clocks(900, 3201), throttle=("hw_slowdown",))
    samples = [_at(4.0, _device(1980)), _at(4.1, hot)]
    ended = messages.Finished(result(device="cuda:0", spans=spans))
    seen = build_conditions(ended, state.runs, samples, 77)
    assert seen is not None
    assert seen.conditions.devices == ("cuda:0", "cuda:1")
    assert seen.conditions.warnings == ("cuda:1 throttled: hw_slowdown",)
