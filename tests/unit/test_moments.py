"""An account is of one moment: NVML's figures are split by torch's only where both are of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.screens.helpers import (
    GIB,
    MIB,
    NOW,
    STRANGER,
    WORKER,
    environment,
    gpu,
    gpu_process,
    hello,
    host,
    sample,
    torch_gpu,
    torch_memory,
)
from tests.screens.watching import said, told, torch_process
from tui.devices.memory import Gauge, account
from tui.devices.memory.model import Absent, Stale, Value, get_value
from tui.devices.state.devices import (
    SILENT_S,
    STORED_S,
    ConsistentReading,
    ConsistentReadings,
    DeviceView,
)
from tui.devices.views.memory import absence_lines
from tui.kit.lines import plain
from tui.monitor.messages import DeviceMemory, HostMemory, Sample
from tui.runs.state.events import CompareQueued, RunQueued
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages

TOTAL, DRIVER, BASE = 80 * GIB, 600 * MIB, 4 * MIB


@dataclass
class Box:
    """A GPU as it truly is at each moment, and what NVML and torch say of it when they are asked.

    ``at`` is the time; NVML takes ``reading`` seconds from its memory to the end of its list.
    """

    state: WorkbenchState = field(default_factory=WorkbenchState)
    at: float = NOW
    context: int = 500 * MIB
    reserved: int = 0
    allocated: int = 0
    others: int = 3 * GIB
    taken: int = 0
    given_back: int = 0
    pid: int = WORKER
    counts: bool = True
    listed: bool = True
    interval: float = 1.0

    def __post_init__(self) -> None:
        for event in (
            hello(),
            messages.Ready(environment(torch_gpu(0, total_memory=TOTAL - DRIVER)), 1.0),
            messages.WorkerStarted(self.pid),
        ):
            self.state.publish(event)

    @property
    def process(self) -> int:
        return self.context + self.reserved if self.context else 0

    @property
    def used(self) -> int:
        return BASE + self.process + self.others

    def reserve(self, size: int) -> None:
        self.reserved, self.taken = self.reserved + size, self.taken + size

    def give_back(self, size: int) -> None:
        self.reserved, self.given_back = self.reserved - size, self.given_back + size
        self.allocated = min(self.allocated, self.reserved)

    def sample(self) -> Sample:
        rows = [gpu_process(STRANGER, self.others)]
        if self.process and self.listed:
            rows.append(gpu_process(self.pid, self.process))
        free = TOTAL - DRIVER - self.used
        device = gpu(
            0,
            memory=DeviceMemory(TOTAL, self.used, free, DRIVER),
            processes=tuple(rows),
            read_at=self.at,
            memory_read=(self.at, self.at),
        )
        return sample(device, at=self.at, interval_s=self.interval)

    def nvml(self) -> None:
        self.state.publish(self.sample())

    def torch(self) -> None:
        self.state.publish(self.told())

    def told(self) -> messages.TorchMemory:
        return torch_memory(
            pid=self.pid,
            at=self.at,
            requested=self.allocated,
            allocated=self.allocated,
            active=self.allocated,
            reserved=self.reserved,
            inactive_split=0,
            device_free=TOTAL - DRIVER - self.used,
            device_total=TOTAL - DRIVER,
            reserved_allocated=self.taken if self.counts else None,
            reserved_freed=self.given_back if self.counts else None,
        )

    def wait(self, seconds: float = 0.1) -> None:
        self.at += seconds

    def gauge(self) -> Gauge:
        return account(self.state.machine, self.state.machine.selected_device, self.at)

    def sizes(self) -> dict[str, int | None]:
        return {part.key: get_value(part.bytes) for part in self.gauge().slices}

    def story(self) -> str:
        return " ".join(self.gauge().explanation)


def settled(reserved: int = 2 * GIB) -> Box:
    """Return a machine whose account is known: torch reported before and after NVML."""
    box = Box()
    box.reserve(reserved)
    box.allocated = reserved // 2
    for step in (box.torch, box.nvml, box.torch):
        box.wait()
        step()
    return box


def test_a_reading_between_two_equal_words_of_torch_is_split() -> None:
    box = settled()
    assert box.sizes()["context"] == box.context
    assert box.sizes()["others"] == box.others
    assert box.sizes()["unattributed"] == BASE
    assert box.gauge().warnings == ()


def test_what_was_reserved_after_nvml_was_read_is_not_taken_off_the_context() -> None:
    box = settled()
    box.reserve(GIB)
    box.wait()
    box.torch()
    gauge = box.gauge()
    assert gauge.term("context").bytes == Absent(
        "torch reserved or released memory after NVML was read", "changing"
    )
    # What torch says and what it finds used are of one moment: the rest is not told apart.
    assert box.sizes()["allocated"] == box.allocated
    assert box.sizes()["cached"] == box.reserved - box.allocated
    assert box.sizes()["process_and_others"] == box.used - box.reserved
    assert box.sizes()["free"] == TOTAL - DRIVER - box.used
    assert gauge.warnings == ()
    assert "the split is unknown: torch reserved or released memory" in box.story()
    assert "Moving" not in box.story()


def test_what_was_given_back_after_nvml_was_read_is_not_counted_as_context() -> None:
    box = settled()
    box.give_back(GIB)
    box.wait()
    box.torch()
    assert isinstance(box.gauge().term("context").bytes, Absent)
    assert box.gauge().warnings == ()
    assert sum(get_value(part.bytes) or 0 for part in box.gauge().known) == TOTAL


def test_memory_that_was_reserved_and_given_back_in_between_is_noticed() -> None:
    box = settled()
    box.reserve(4 * GIB)
    box.wait()
    box.nvml()
    box.wait()
    box.give_back(4 * GIB)
    box.torch()
    # As much is reserved as before NVML was read, and yet it saw 4 GiB more.
    context = get_value(box.gauge().term("context").bytes)
    assert context in (None, box.context)


def test_the_reading_before_serves_until_torch_has_spoken_on_the_newest() -> None:
    box = settled()
    box.wait()
    box.others += GIB
    box.nvml()
    assert box.sizes()["others"] == box.others - GIB
    assert box.sizes()["context"] == box.context
    box.wait()
    box.torch()
    assert box.sizes()["others"] == box.others


def test_the_account_after_a_movement_is_split_as_soon_as_both_have_spoken() -> None:
    box = settled()
    box.reserve(GIB)
    for step in (box.torch, box.nvml):
        box.wait()
        step()
        assert box.gauge().term("context").bytes != Value(box.context)
    box.wait()
    box.torch()
    assert box.gauge().term("context").bytes == Value(box.context)


def test_a_context_that_grew_because_a_library_was_loaded_is_shown_as_it_is() -> None:
    box = settled()
    box.context += 300 * MIB
    for step in (box.nvml, box.torch):
        box.wait()
        step()
    assert box.gauge().term("context").bytes == Value(box.context)


def test_a_worker_that_does_not_answer_leaves_its_process_in_one_piece() -> None:
    box = settled()
    for _ in range(4):
        box.wait(1.0)
        box.reserve(GIB)
        box.nvml()
    gauge = box.gauge()
    assert box.sizes()["process"] == box.process
    assert box.sizes()["others"] == box.others
    assert box.sizes()["allocated"] is None
    allocated = gauge.term("allocated").bytes
    assert isinstance(allocated, Stale)
    assert allocated.reason == "the runner is busy and has not reported since NVML was read"
    assert gauge.warnings == ()
    assert "live tensors used 1.0 GiB 4 s ago: the runner is busy" in box.story()
    assert any(
        "allocated, cached n/a: the runner is busy" in plain(line)
        for line in absence_lines(gauge, 100)
    )


def test_a_busy_worker_is_read_from_outside_where_its_allocator_is_watched() -> None:
    box = settled()
    box.state.publish(told(torch_process(WORKER)))
    for _ in range(4):
        box.wait(1.0)
        box.reserve(GIB)
        box.allocated += GIB
        box.nvml()
        box.wait()
        box.state.publish(said(replace(box.told(), workspace=None), at=box.at))
        box.wait()
        box.nvml()
        box.wait()
        box.state.publish(said(replace(box.told(), workspace=None), at=box.at))
    gauge = box.gauge()
    assert box.sizes()["allocated"] == box.allocated
    assert box.sizes()["context"] == box.context
    assert gauge.term("allocated").bytes == Value(box.allocated)
    assert "busy" not in box.story()
    newest = box.state.machine.history.points(box.state.machine.selected)[-1]
    assert (newest.allocated, newest.reserved) == (box.allocated, box.reserved)
    # The worker's own report is preferred as soon as it speaks again.
    box.wait()
    box.torch()
    box.wait()
    box.nvml()
    box.wait()
    box.torch()
    assert gauge.term("allocated").source != box.gauge().term("allocated").source


def test_a_worker_that_is_slow_to_answer_is_given_time() -> None:
    box = settled()
    box.wait(1.0)
    box.nvml()
    box.wait(SILENT_S - 0.1)
    assert box.sizes()["context"] == box.context
    box.wait(0.2)
    assert box.sizes()["process"] == box.process


def test_a_slow_refresh_does_not_make_an_idle_worker_a_busy_one() -> None:
    box = settled()
    box.interval = 60.0
    box.wait(60.0)
    box.nvml()
    assert box.sizes()["context"] == box.context
    box.wait(0.01)
    box.torch()
    box.wait(50.0)
    assert box.gauge().term("context").bytes == Value(box.context)


def test_a_young_worker_that_an_older_list_lacks_is_no_sign_of_a_container() -> None:
    box = Box(context=0)
    box.nvml()
    box.context = 500 * MIB
    box.reserve(GIB)
    box.wait()
    box.torch()
    words = " ".join((*box.gauge().explanation, *map(str, box.gauge().terms)))
    assert "container" not in words
    assert "NVML does not list" not in words


def test_a_worker_that_the_list_lacks_though_it_held_memory_is_one_in_a_container() -> None:
    box = settled()
    box.listed = False
    for step in (box.nvml, box.torch):
        box.wait()
        step()
    process = box.gauge().term("process").bytes
    assert isinstance(process, Absent)
    assert "in a container" in process.reason


def test_in_a_container_a_silent_worker_and_others_are_one_piece_too() -> None:
    box = settled()
    box.listed = False
    for _ in range(4):
        box.wait(1.0)
        box.reserve(GIB)
        box.nvml()
    assert box.sizes()["process_and_others"] == box.used
    assert "is this process's memory and other processes together" in box.story()


def test_what_counts_nothing_is_taken_by_what_it_has_reserved() -> None:
    box = Box(counts=False)
    box.reserve(GIB)
    for step in (box.torch, box.nvml, box.torch):
        box.wait()
        step()
    assert box.gauge().term("context").bytes == Value(box.context)
    box.reserve(MIB)
    box.wait()
    box.torch()
    assert isinstance(box.gauge().term("context").bytes, Absent)


def test_unified_memory_is_not_split_by_what_torch_finds_free() -> None:
    box = settled()
    unified = DeviceMemory(None, None, None, None, unified=True)

    def look(at: float) -> Sample:
        seen = box.sample()
        device = replace(seen.devices[0], memory=unified, memory_read=(at, at))
        return replace(
            seen, devices=(device,), host=host(memory=HostMemory(128 * GIB, 20 * GIB, 108 * GIB))
        )

    box.wait()
    box.state.publish(look(box.at))
    box.wait()
    box.reserve(GIB)
    box.torch()
    assert get_value(box.gauge().total) == 128 * GIB
    assert box.sizes()["free"] == 108 * GIB
    assert isinstance(box.gauge().term("context").bytes, Absent)


def test_a_process_that_reserves_all_the_time_has_its_last_consistent_reading() -> None:
    box, moments = Box(), ConsistentReadings()

    def report() -> None:
        # A reading from outside has no figures of the driver.
        moments.apply_torch(replace(box.told(), device_free=None, device_total=None))

    def find() -> ConsistentReading:
        (device,) = box.sample().devices
        view = DeviceView(device.id, nvml=device)
        return moments.find_for_process(view, "cuda:0", box.pid, box.at)

    box.reserve(GIB)
    report()
    box.wait()
    moments.apply_sample(box.sample())
    box.wait()
    report()
    for _ in range(8):
        # Between each two reports it reserves more, and NVML is read after that.
        box.wait()
        box.reserve(GIB)
        moments.apply_sample(box.sample())
        box.wait()
        box.reserve(GIB)
        report()
    failed = replace(box.told(), device_free=None, device_total=None, ooms=1, alloc_retries=2)
    moments.apply_torch(failed)
    found = find()
    assert found.basis == "one moment"
    assert found.torch is not None
    assert found.device is not None
    assert found.torch.reserved == GIB
    # What has happened since is not left out with the sizes.
    assert (found.torch.ooms, found.torch.alloc_retries) == (1, 2)
    assert found.device.memory.used == BASE + box.context + GIB + box.others
    for _ in range(30):
        box.wait(STORED_S / 20)
        box.reserve(GIB)
        report()
        box.wait(0.01)
        box.reserve(GIB)
        moments.apply_sample(box.sample())
    assert find().basis == "NVML"


def test_samples_are_not_kept_for_longer_than_they_serve() -> None:
    moments = ConsistentReadings()
    box = Box()
    for _ in range(400):
        box.wait(0.05)
        moments.apply_sample(box.sample())
    assert len(moments._samples) <= STORED_S / 0.05 + 2


# ---- a worker and the next ----


def next_worker(box: Box, pid: int) -> None:
    box.state.publish(messages.WorkerEnded(box.pid, "the next run needs a fresh process", True))
    box.state.publish(messages.WorkerStarted(pid))
    box.pid, box.context, box.reserved, box.allocated = pid, 0, 0, 0
    box.taken = box.given_back = 0


COMPARISON = CompareQueued(
    messages.Compare("c", "conv2d", "cuda:0", {}, "cudnn.benchmark", (False, True), {})
)


def test_between_fresh_workers_the_figures_of_the_one_before_stand_in_as_old() -> None:
    box = settled()
    box.state.publish(COMPARISON)
    next_worker(box, 5000)
    box.wait(0.4)
    gauge = box.gauge()
    for key in ("allocated", "cached"):
        read = gauge.term(key).bytes
        assert isinstance(read, Stale)
        assert read.age_s == pytest.approx(0.4)
        assert "its process has ended" in read.reason
    assert "none of it the runner's" not in box.story()
    assert "live tensors used 1.0 GiB" in box.story()


def test_an_ended_worker_that_nvml_lists_no_more_is_no_sign_of_a_container() -> None:
    box = settled()
    box.state.publish(COMPARISON)
    next_worker(box, 5000)
    for _ in range(2):
        box.wait(0.9)
        box.nvml()
    assert isinstance(box.gauge().term("allocated").bytes, Stale)
    assert "container" not in " ".join((box.story(), *map(str, box.gauge().terms)))


def test_the_figures_of_the_next_worker_replace_them() -> None:
    box = settled()
    box.state.publish(COMPARISON)
    next_worker(box, 5000)
    box.wait()
    box.context = 500 * MIB
    box.reserve(3 * GIB)
    box.torch()
    assert box.gauge().term("reserved").bytes == Value(3 * GIB)
    for step in (box.nvml, box.torch):
        box.wait()
        step()
    assert box.gauge().term("context").bytes == Value(box.context)


def test_they_do_not_stand_in_for_long() -> None:
    box = settled()
    box.state.publish(COMPARISON)
    next_worker(box, 5000)
    box.wait(10.5)
    box.nvml()
    absent = box.gauge().term("allocated").bytes
    assert absent == Absent("the runner has not used this device yet")


@pytest.mark.parametrize("queued", [None, COMPARISON])
def test_a_worker_that_ends_with_nothing_to_do_leaves_nothing(queued: CompareQueued | None) -> None:
    box = settled()
    if queued is not None:
        box.state.publish(queued)
        box.state.publish(messages.Rejected("c", "cancelled", "cancelled"))
    box.state.publish(messages.WorkerEnded(box.pid, "killed", False))
    assert box.gauge().term("allocated").bytes == Absent("torch starts with the next run")


def test_a_runner_that_ends_leaves_nothing_whatever_waits() -> None:
    from tui.core.events import RunnerStatus

    box = settled()
    box.state.publish(RunQueued(messages.Run("r", "matmul", "cuda:0", {}, {})))
    box.state.publish(RunnerStatus("restarting", "it died"))
    assert isinstance(box.gauge().term("allocated").bytes, Absent)


# ---- whatever happens ----

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["nvml", "torch", "wait", "long wait"]), st.just(0)),
        st.tuples(st.sampled_from(["reserve", "give back", "allocate"]), st.integers(1, 4 * GIB)),
        st.tuples(st.just("others"), st.integers(0, 8 * GIB)),
        st.tuples(st.just("load"), st.integers(1, 400 * MIB)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_whatever_allocates_the_context_is_one_that_there_was(
    steps: list[tuple[str, int]],
) -> None:
    box = Box()
    contexts, others = {box.context}, {box.others}
    for what, size in steps:
        if what == "reserve":
            box.reserve(min(size, TOTAL - DRIVER - box.used))
        elif what == "give back":
            box.give_back(min(size, box.reserved))
        elif what == "allocate":
            box.allocated = min(size, box.reserved)
        elif what == "others":
            box.others = min(size, TOTAL - DRIVER - BASE - box.process)
            others.add(box.others)
        elif what == "load":
            box.context += min(size, TOTAL - DRIVER - box.used)
            contexts.add(box.context)
        elif what == "nvml":
            box.nvml()
        elif what == "torch":
            box.torch()
        else:
            box.wait(2.0 if what == "long wait" else 0.1)
        box.wait(0.001)
        gauge = box.gauge()
        assert get_value(gauge.term("context").bytes) in {None, *contexts}
        assert get_value(gauge.term("others").bytes) in {None, *others}
        assert get_value(gauge.term("unattributed").bytes) in {None, BASE}
        assert gauge.warnings == ()
        total = get_value(gauge.total)
        assert total is None or sum(get_value(part.bytes) or 0 for part in gauge.known) == total


def test_a_reading_that_moved_while_it_was_made_is_passed_over() -> None:
    box = settled()
    box.wait()
    used, box.others = box.used, 5 * GIB
    (device,) = box.sample().devices
    # NVML counted the memory before, and listed the processes after, 2 GiB were taken.
    torn = replace(
        device,
        memory=DeviceMemory(TOTAL, used, TOTAL - DRIVER - used, DRIVER),
        memory_moved=True,
    )
    box.state.publish(replace(box.sample(), devices=(torn,)))
    box.wait()
    box.torch()
    assert box.gauge().warnings == ()
    assert box.sizes()["others"] == 3 * GIB


def test_before_torch_has_spoken_such_a_reading_is_passed_over_too() -> None:
    box = Box()
    box.nvml()
    box.wait()
    (device,) = box.sample().devices
    torn = replace(
        device, memory=DeviceMemory(TOTAL, MIB, TOTAL - DRIVER - MIB, DRIVER), memory_moved=True
    )
    box.state.publish(replace(box.sample(), devices=(torn,)))
    assert box.gauge().warnings == ()
    assert box.sizes()["process"] == box.process


def test_where_all_readings_moved_the_newest_is_shown() -> None:
    box = Box()
    (device,) = box.sample().devices
    box.state.publish(replace(box.sample(), devices=(replace(device, memory_moved=True),)))
    assert box.sizes()["process"] == box.process
