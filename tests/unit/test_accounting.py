"""Where the memory is: the slices always add up, and what is not known is said to be so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.screens.helpers import (
    GIB,
    MIB,
    NOW,
    STRANGER,
    WORKER,
    gpu,
    gpu_process,
    host,
    host_heap,
    make_store,
    sample,
    torch_gpu,
    torch_memory,
    uuid,
)
from tui.devices.memory import Gauge, account, gpu_gauge, host_gauge
from tui.devices.memory.figures import GpuReadings
from tui.devices.memory.model import Absent, Stale, Value, get_value
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import MemoryPoint
from tui.devices.state.machine import DeviceSelected
from tui.monitor.messages import Device, DeviceMemory, HostMemory, WatchedProcess
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages

NOTHING = MemoryPoint(0.0)
LIST_OF_HOST_PIDS = (gpu_process(99_999, 17 * GIB), gpu_process(STRANGER, 3 * GIB))


def selected(state: WorkbenchState, now: float = NOW) -> Gauge:
    return account(state.machine, state.machine.selected_device, now)


def account_of(device: Device, torch: messages.TorchMemory | None = None) -> Gauge:
    view = DeviceView(device.id, device, torch_gpu(0))
    return gpu_gauge(GpuReadings(view, sample(device), torch, WORKER, NOW), NOTHING)


def sizes(gauge: Gauge) -> dict[str, int | None]:
    return {part.key: get_value(part.bytes) for part in gauge.slices}


# ---- the law ----

amounts = st.one_of(st.none(), st.integers(0, 200 * GIB))


@st.composite
def devices(draw: st.DrawFn) -> Device:
    pids = draw(st.lists(st.sampled_from([WORKER, STRANGER, 5, 6]), unique=True, max_size=4))
    rows = tuple(gpu_process(pid, draw(amounts)) for pid in pids)
    return gpu(
        memory=DeviceMemory(
            draw(amounts), draw(amounts), draw(amounts), draw(amounts), draw(st.booleans())
        ),
        processes=draw(st.one_of(st.none(), st.just(rows))),
        lost=draw(st.sampled_from([None, "gone"])),
        read_at=draw(st.sampled_from([NOW, NOW - 60])),
    )


@st.composite
def allocators(draw: st.DrawFn) -> messages.TorchMemory | None:
    size = st.integers(0, 200 * GIB)
    return draw(
        st.one_of(
            st.none(),
            st.builds(
                torch_memory,
                pid=st.sampled_from([WORKER, STRANGER]),
                requested=size,
                allocated=size,
                active=size,
                reserved=size,
                inactive_split=size,
                device_free=amounts,
                device_total=amounts,
                workspace=st.one_of(st.none(), size),
            ),
        )
    )


@settings(max_examples=400, deadline=None)
@given(devices(), allocators(), st.sampled_from([WORKER, None]))
def test_the_slices_of_a_gpu_add_up_whatever_the_figures(
    device: Device, torch: messages.TorchMemory | None, worker_pid: int | None
) -> None:
    view = DeviceView(device.id, device, torch_gpu(0))
    gauge = gpu_gauge(GpuReadings(view, sample(device), torch, worker_pid, NOW), NOTHING)
    known = [get_value(part.bytes) for part in gauge.known]
    total = get_value(gauge.total)
    assert all(size is not None and size >= 0 for size in known) or not total
    if total:
        assert sum(size or 0 for size in known) == total
    assert all(part.bytes.reason for part in gauge.slices if isinstance(part.bytes, Absent))
    assert len({part.key for part in gauge.slices}) == len(gauge.slices)
    free = get_value(gauge.would_free)
    assert free is None or free >= 0


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 200 * GIB),
    st.integers(0, 200 * GIB),
    amounts,
    amounts,
    st.sampled_from([WORKER, None]),
)
def test_the_slices_of_the_host_add_up_whatever_the_figures(
    total: int, available: int, unique: int | None, resident: int | None, worker_pid: int | None
) -> None:
    look = sample(
        host=host(memory=HostMemory(total, 0, available)),
        watched=(WatchedProcess(WORKER, unique, resident),),
    )
    gauge = host_gauge(look, host_heap(), worker_pid, NOTHING, NOW)
    known = [get_value(part.bytes) or 0 for part in gauge.known]
    assert all(size >= 0 for size in known)
    assert not total or sum(known) == total


# ---- a GPU where all is known ----


def test_every_slice_of_a_busy_gpu_has_its_name_and_size() -> None:
    gauge = selected(make_store())
    assert [(part.label, get_value(part.bytes)) for part in gauge.slices] == [
        ("allocated", int(12.3 * GIB)),
        ("cached", 16 * GIB - int(12.3 * GIB)),
        ("context", int(16.6 * GIB) - 16 * GIB),
        ("others", int(4.1 * GIB)),
        ("driver", int(0.6 * GIB)),
        ("free", int(139.8 * GIB) - int(20.7 * GIB) - int(0.6 * GIB)),
    ]
    assert gauge.warnings == ()


def test_the_context_is_the_process_less_reserved_and_never_less_allocated() -> None:
    gauge = account_of(gpu(), torch_memory(allocated=GIB, active=GIB, requested=GIB))
    assert get_value(gauge.term("context").bytes) == int(16.6 * GIB) - 16 * GIB


def test_emptying_the_cache_would_free_whole_free_segments_only() -> None:
    gauge = selected(make_store())
    freed = 16 * GIB - int(12.3 * GIB) - int(1.2 * GIB)
    assert gauge.would_free == Value(freed)


def test_pending_frees_are_not_counted_as_releasable() -> None:
    gauge = account_of(gpu(), torch_memory(active=13 * GIB, inactive_split=0))
    assert gauge.would_free == Value(3 * GIB)
    assert get_value(gauge.term("pending").bytes) == 13 * GIB - int(12.3 * GIB)


def test_exact_and_sampled_peaks_say_which_they_are() -> None:
    peaks = {term.key: term for term in selected(make_store()).peaks}
    assert peaks["allocated_peak"].bytes == Value(15 * GIB)
    assert peaks["allocated_peak"].source == "torch, exact"
    assert peaks["used_peak"].source == "NVML, sampled"


def test_a_peak_with_the_workspaces_of_cublas_is_that_of_torch() -> None:
    assert "allocated_peak_whole" not in {term.key for term in selected(make_store()).peaks}
    gauge = account_of(gpu(), torch_memory(workspace_peak=GIB))
    peaks = {term.label: term.bytes for term in gauge.peaks}
    assert (peaks["allocated"], peaks["with cuBLAS"]) == (Value(15 * GIB), Value(16 * GIB))


def test_no_sampled_peak_is_below_the_present_figure() -> None:
    readings = GpuReadings(DeviceView("cuda:0", gpu()), sample(gpu()), torch_memory(), WORKER, NOW)
    present = {term.key: term.bytes for term in gpu_gauge(readings, MemoryPoint(NOW)).terms}
    sampled = MemoryPoint(NOW, process=1, used=2)
    peaks = {term.key: term.bytes for term in gpu_gauge(readings, sampled).peaks}
    assert peaks["process_peak"] == present["process"]
    assert peaks["used_peak"] == present["used"]


def test_the_explanation_states_the_actual_figures() -> None:
    story = " ".join(selected(make_store()).explanation)
    assert "nvidia-smi shows 20.7 GiB in use; live tensors use 12.3 GiB" in story
    assert "3.7 GiB is torch's cache" in story
    assert "up to 2.5 GiB" in story
    assert "614 MiB is this process's CUDA context" in story
    assert "4.1 GiB is used by 1 other process." in story


# ---- zero and unknown ----


def test_zero_is_zero_once_the_worker_has_said_so() -> None:
    empty = torch_memory(
        requested=0, allocated=0, active=0, reserved=0, inactive_split=0, allocated_peak=0
    )
    gauge = account_of(gpu(processes=(gpu_process(WORKER, 500 * MIB),)), empty)
    assert sizes(gauge)["allocated"] == 0
    assert sizes(gauge)["cached"] == 0
    assert gauge.would_free == Value(0)
    assert gauge.term("requested").bytes == Value(0)


def test_a_device_that_the_runner_has_not_used_has_no_torch_figures() -> None:
    state = make_store("two gpus")
    gauge = account(state.machine, state.machine.devices[1], NOW)
    absent = Absent("the runner has not used this device yet")
    assert gauge.term("allocated").bytes == absent
    assert gauge.term("process").bytes == absent
    assert gauge.would_free == absent
    assert sizes(gauge)["others"] == 0
    assert sizes(gauge)["unattributed"] == 4 * MIB


def test_figures_of_a_dead_worker_are_not_shown() -> None:
    gauge = account_of(gpu(), torch_memory(pid=1))
    assert isinstance(gauge.term("reserved").bytes, Absent)
    state = make_store("one gpu", messages.WorkerEnded(WORKER, "killed", False))
    assert selected(state).term("reserved").bytes == Absent("torch starts with the next run")


def test_a_device_that_torch_does_not_see_says_why() -> None:
    view = DeviceView(uuid(0), gpu(), None, "hidden by CUDA_VISIBLE_DEVICES?")
    gauge = gpu_gauge(GpuReadings(view, sample(gpu()), None, WORKER, NOW), NOTHING)
    assert gauge.term("allocated").bytes == Absent("hidden by CUDA_VISIBLE_DEVICES?")


def test_the_async_backend_leaves_some_figures_uncounted() -> None:
    gauge = account_of(gpu(), torch_memory(requested=0, active=0, inactive_split=0))
    for key in ("requested", "active", "stuck", "rounding"):
        read = gauge.term(key).bytes
        assert isinstance(read, Absent)
        assert "cudaMallocAsync" in read.reason
    assert get_value(gauge.would_free) == 16 * GIB - int(12.3 * GIB)
    assert gauge.warnings == ()


# ---- processes ----


def test_in_a_container_context_and_others_are_one_slice() -> None:
    gauge = account_of(gpu(processes=LIST_OF_HOST_PIDS), torch_memory())
    assert sizes(gauge)["process_and_others"] == int(20.7 * GIB) - 16 * GIB
    assert "others" not in sizes(gauge)
    process = gauge.term("process").bytes
    assert isinstance(process, Absent)
    assert "in a container" in process.reason
    assert "the split is unknown" in " ".join(gauge.explanation)


def test_a_process_list_that_is_refused_is_not_an_empty_one() -> None:
    device = gpu(processes=None, unavailable={"processes": "needs root"})
    gauge = account_of(device, torch_memory())
    assert gauge.term("process").bytes == Absent("needs root")
    assert gauge.term("others").bytes == Absent("needs root")
    assert "process_and_others" in sizes(gauge)


def test_a_process_without_a_figure_leaves_the_sum_unknown() -> None:
    silent = gpu_process(6, None, unavailable={"memory": "not offered under MIG"})
    rows = (gpu_process(), gpu_process(STRANGER, GIB), silent)
    gauge = account_of(gpu(processes=rows), torch_memory())
    others = gauge.term("others").bytes
    assert others == Absent("1 of 2 give no figure, at least 1.0 GiB: not offered under MIG")
    assert sizes(gauge)["others"] == int(20.7 * GIB) - int(16.6 * GIB)


def test_our_process_without_a_figure_is_drawn_with_the_others() -> None:
    ours = gpu_process(WORKER, None, unavailable={"memory": "not given by WDDM"})
    gauge = account_of(gpu(processes=(ours,)), torch_memory())
    assert gauge.term("context").bytes == Absent("not given by WDDM")
    assert "process_and_others" in sizes(gauge)


def test_what_no_process_holds_is_a_slice_of_its_own() -> None:
    gauge = account_of(gpu(processes=(gpu_process(),)), torch_memory())
    assert sizes(gauge)["others"] == 0
    assert sizes(gauge)["unattributed"] == int(20.7 * GIB) - int(16.6 * GIB)


def test_a_worker_that_nvml_sees_before_torch_reports_is_one_slice() -> None:
    gauge = account_of(gpu(), None)
    assert sizes(gauge)["process"] == int(16.6 * GIB)
    assert sizes(gauge)["allocated"] is None


# ---- what does not fit together ----


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"requested": 13 * GIB}, "requested 13.0 GiB is more than allocated 12.3 GiB"),
        ({"allocated": 14 * GIB}, "allocated 14.0 GiB is more than active 12.3 GiB"),
        ({"active": 17 * GIB}, "active 17.0 GiB is more than reserved 16.0 GiB"),
        ({"reserved": 18 * GIB}, "reserved 18.0 GiB is more than this process 16.6 GiB"),
    ],
)
def test_each_break_of_the_chain_is_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    (warning,) = account_of(gpu(), torch_memory(**changes)).warnings
    assert warning.startswith(sentence)
    assert ": " in warning


def test_a_process_above_device_used_is_said() -> None:
    gauge = account_of(gpu(processes=(gpu_process(WORKER, 30 * GIB),)), torch_memory())
    (warning,) = gauge.warnings
    assert warning.startswith("this process 30.0 GiB is more than device used 20.7 GiB")


def test_processes_that_add_up_to_more_than_used_are_said() -> None:
    rows = (gpu_process(), gpu_process(STRANGER, 8 * GIB))
    gauge = account_of(gpu(processes=rows), torch_memory())
    (warning,) = gauge.warnings
    assert warning.startswith("the processes' figures add up to 24.6 GiB, more than device used")


def test_sizes_that_read_the_same_are_told_in_bytes() -> None:
    one_more = torch_memory(requested=int(12.3 * GIB) + 1)
    (warning,) = account_of(gpu(), one_more).warnings
    assert "13 207 024 436 bytes" in warning


def test_retries_and_failures_are_warnings_and_counters() -> None:
    gauge = account_of(gpu(), torch_memory(alloc_retries=3, ooms=1))
    assert gauge.warnings == (
        "out of memory 1 time since the last run began",
        "torch returned its whole cache 3 times to find room since the last run began "
        "(alloc retries)",
    )
    assert [counter.count for counter in gauge.counters] == [Value(3), Value(1)]


# ---- what torch gives to cuBLAS ----


def test_what_cublas_was_given_is_neither_a_tensors_nor_cache_nor_context() -> None:
    torch = torch_memory(workspace=GIB)
    gauge = account_of(gpu(), torch)
    without = account_of(gpu(), torch_memory())
    parts = {part.key: get_value(part.bytes) for part in gauge.known}
    assert parts["workspace"] == GIB
    assert parts["allocated"] == torch.allocated
    assert parts["cached"] == torch.reserved - torch.allocated - GIB
    assert gauge.term("workspace").bytes == Value(GIB)
    assert gauge.term("context") == without.term("context")
    assert get_value(gauge.would_free) == (get_value(without.would_free) or 0) - GIB
    assert "torch has given 1.0 GiB to cuBLAS as its workspace" in " ".join(gauge.explanation)
    assert gauge.warnings == without.warnings


def test_without_a_tensor_nothing_is_said_to_be_held_by_live_tensors() -> None:
    size = 64 * 2**20
    torch = torch_memory(
        requested=0, allocated=0, active=0, reserved=size, inactive_split=0, workspace=size
    )
    gauge = account_of(gpu(), torch)
    words = " ".join(gauge.explanation)
    assert "live tensors use 0 B of it" in words
    assert "torch's cache is empty" in words
    assert {part.key: get_value(part.bytes) for part in gauge.known}["allocated"] == 0


def test_where_the_runner_does_not_tell_it_apart_the_rest_of_the_account_stands() -> None:
    gauge = account_of(gpu(), torch_memory(workspace=None))
    term = gauge.term("workspace").bytes
    assert isinstance(term, Absent)
    assert term.reason
    assert gauge.slices == account_of(gpu(), torch_memory()).slices
    assert gauge.would_free == account_of(gpu(), torch_memory()).would_free


# ---- what is pinned on the host ----


def test_what_is_pinned_is_a_figure_beside_the_account_and_no_part_of_it() -> None:
    gauge = account_of(gpu(), torch_memory(pinned=2 * GIB))
    without = account_of(gpu(), torch_memory(pinned=0))
    assert gauge.term("pinned").bytes == Value(2 * GIB)
    assert without.term("pinned").bytes == Value(0)
    assert gauge.slices == without.slices
    assert gauge.warnings == without.warnings


def test_a_torch_that_does_not_count_what_is_pinned_is_the_reason() -> None:
    pinned = account_of(gpu(), torch_memory(pinned=None)).term("pinned").bytes
    assert pinned == Absent("this torch does not count it")


def test_without_a_worker_nothing_is_said_to_be_pinned() -> None:
    gauge = account_of(gpu())
    assert isinstance(gauge.term("pinned").bytes, Absent)
    assert gauge.term("pinned").bytes == gauge.term("reserved").bytes


def test_the_hosts_account_has_it_too_by_the_newest_that_was_said() -> None:
    said = [torch_memory(pinned=GIB), torch_memory("cuda:1", pinned=3 * GIB, at=NOW + 1)]
    state = make_store("two gpus", *said, DeviceSelected(CPU))
    gauge = selected(state)
    assert gauge.term("pinned").bytes == Value(3 * GIB)
    assert "pinned" not in {part.key for part in gauge.slices}


def test_what_a_worker_that_has_ended_had_pinned_is_not_said() -> None:
    state = make_store("one gpu", torch_memory(pinned=GIB, pid=STRANGER), DeviceSelected(CPU))
    with pytest.raises(KeyError):
        selected(state).term("pinned")


# ---- devices that say less ----


def test_old_figures_are_marked_with_their_age_and_torch_s_are_not() -> None:
    gauge = selected(make_store(), now=NOW + 12)
    assert gauge.total == Stale(int(139.8 * GIB), 12.0, "the monitor has sent nothing since")
    parts = {part.key: part.bytes for part in gauge.slices}
    assert isinstance(parts["others"], Stale)
    assert isinstance(parts["context"], Stale)
    assert isinstance(parts["allocated"], Value)


def test_a_lost_device_has_no_bar_and_torch_s_last_figures_are_old() -> None:
    device = gpu(
        lost="GPU is lost",
        memory=DeviceMemory(None, None, None, None),
        processes=None,
        unavailable={"memory.total": "GPU is lost", "processes": "GPU is lost"},
    )
    gauge = account_of(device, torch_memory())
    assert gauge.total == Absent("GPU is lost")
    assert isinstance(gauge.term("reserved").bytes, Stale)


def test_unified_memory_is_drawn_on_the_host_s_total() -> None:
    device = gpu(
        memory=DeviceMemory(None, None, None, None, unified=True),
        processes=(gpu_process(WORKER, 3 * GIB),),
        unavailable={"memory.total": "unified memory: shared with the host"},
    )
    small = torch_memory(requested=GIB, allocated=GIB, active=GIB, reserved=2 * GIB)
    gauge = account_of(device, small)
    assert gauge.unified
    assert gauge.total == Value(128 * GIB)
    assert sizes(gauge)["free"] == 116 * GIB
    assert gauge.slices[-1].label == "available"
    assert sizes(gauge)["context"] == GIB
    assert "unified memory" in gauge.explanation[-1]


def test_without_nvml_torch_s_own_figures_are_the_bar() -> None:
    view = DeviceView("cuda:0", None, torch_gpu(0), "NVML does not list this device")
    gauge = gpu_gauge(GpuReadings(view, sample(), torch_memory(), WORKER, NOW), NOTHING)
    assert gauge.total == Value(int(139.8 * GIB))
    assert gauge.term("used").source == "torch mem_get_info"
    assert gauge.term("process").bytes == Absent("NVML does not list this device")
    assert sum(get_value(part.bytes) or 0 for part in gauge.known) == int(139.8 * GIB)


def test_a_device_whose_use_nobody_knows_is_drawn_as_unknown() -> None:
    view = DeviceView("cuda:0", None, torch_gpu(0), "NVML does not list this device")
    gauge = gpu_gauge(GpuReadings(view, sample(), None, WORKER, NOW), NOTHING)
    assert sizes(gauge)["unknown"] == int(139.8 * GIB)
    assert "free" not in sizes(gauge)


def test_an_old_driver_counts_its_own_part_as_used() -> None:
    total, used = int(139.8 * GIB), int(21.3 * GIB)
    device = gpu(
        memory=DeviceMemory(total, used, total - used, None),
        unavailable={"memory.driver_reserved": "driver too old for this figure: part of used"},
    )
    gauge = account_of(device, torch_memory())
    assert "driver" not in sizes(gauge)
    assert sizes(gauge)["free"] == total - used
    assert gauge.term("used").about == "with the driver's reserve"


# ---- the host ----


def test_the_host_s_bar_is_runner_shared_others_available() -> None:
    state = make_store("no gpu")
    gauge = selected(state)
    assert [(part.label, get_value(part.bytes)) for part in gauge.slices] == [
        ("runner", 900 * MIB),
        ("shared", 400 * MIB),
        ("others", 12 * GIB - 1300 * MIB),
        ("available", 116 * GIB),
    ]
    assert gauge.would_free == Value(220 * MIB)


@pytest.mark.parametrize(
    ("watched", "keys"),
    [
        ((), ["unique", "process_and_others", "free"]),
        ((WatchedProcess(WORKER, None, GIB),), ["unique", "others", "free"]),
    ],
)
def test_a_runner_that_cannot_be_looked_at_is_drawn_as_such(
    watched: tuple[WatchedProcess, ...], keys: list[str]
) -> None:
    gauge = host_gauge(sample(watched=watched), None, WORKER, NOTHING, NOW)
    assert [part.key for part in gauge.slices] == keys
    assert gauge.would_free == Absent("the runner has not reported yet")


def test_a_heap_that_does_not_report_gives_its_reason() -> None:
    silent = replace(host_heap(), cached=None, unavailable={"cached": "musl does not say"})
    gauge = host_gauge(sample(), silent, WORKER, NOTHING, NOW)
    assert gauge.would_free == Absent("musl does not say")


def test_before_the_first_sample_nothing_is_claimed() -> None:
    gauge = selected(make_store("empty"))
    assert gauge.total == Absent("waiting for the monitor")
    assert all(isinstance(part.bytes, Absent) for part in gauge.slices)


# ---- our own processes beside the worker ----

RANKS = (
    gpu_process(5001, int(1.2 * GIB), ours=True),
    gpu_process(5002, int(0.9 * GIB), ours=True),
)


def test_our_ranks_are_no_strangers() -> None:
    rows = (gpu_process(), *RANKS, gpu_process(STRANGER, GIB))
    gauge = account_of(gpu(processes=rows), torch_memory())
    assert sizes(gauge)["ours"] == int(1.2 * GIB) + int(0.9 * GIB)
    assert sizes(gauge)["others"] == GIB
    assert get_value(gauge.term("others").bytes) == GIB
    story = " ".join(gauge.explanation)
    assert "2.1 GiB is used by 2 processes of this workbench: ranks, or runners" in story
    assert "1.0 GiB is used by 1 other process." in story


def test_what_ranks_hold_is_not_said_to_be_none_of_ours() -> None:
    gauge = account_of(gpu(processes=RANKS))
    story = " ".join(gauge.explanation)
    assert "none of it the runner's" not in story
    assert "none of it is the runner's: the runner has not used this device yet" in story
    assert sizes(gauge)["ours"] == int(1.2 * GIB) + int(0.9 * GIB)
    assert sizes(gauge)["others"] == 0


def test_a_dying_worker_is_ours_while_the_next_has_said_nothing() -> None:
    dying = gpu_process(4000, 500 * MIB, ours=True)
    gauge = account_of(gpu(processes=(dying,)))
    assert "other process." not in " ".join(gauge.explanation)
    assert sizes(gauge)["ours"] == 500 * MIB


def test_our_ranks_without_a_figure_are_one_slice_with_the_others() -> None:
    silent = replace(RANKS[0], memory=None, unavailable={"memory": "not offered under MIG"})
    gauge = account_of(gpu(processes=(silent, gpu_process(STRANGER, GIB))))
    assert "others" not in sizes(gauge)
    assert sizes(gauge)["process_and_others"] == int(20.7 * GIB)
    assert "not offered under MIG" in " ".join(gauge.explanation)


def test_ours_and_others_that_add_up_to_more_than_used_are_said() -> None:
    rows = (gpu_process(), *RANKS, gpu_process(STRANGER, 4 * GIB))
    gauge = account_of(gpu(processes=rows), torch_memory())
    (warning,) = gauge.warnings
    assert warning.startswith("the processes' figures add up to 22.7 GiB")


def test_without_further_processes_of_ours_there_is_no_slice_for_them() -> None:
    assert "ours" not in sizes(account_of(gpu(), torch_memory()))
