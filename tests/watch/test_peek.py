"""Figures read from another process's memory, against what that process says of itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.watch.target import VECTOR_AT, ScriptedTarget
from tui.allocators import peek
from tui.allocators.layouts import ARRAYS, UNKNOWN_LAYOUT, Numbers, torch_memory
from tui.allocators.messages import CPU_BUILD, NOT_USED_YET
from tui.allocators.peek import AllocatorReader, AllocatorReading, UnreadableError
from tui.allocators.process_files import GoneError, ProcessFiles
from workloads.protocol.messages import TorchMemory

AT = 5.0
UNIT = 1536
"""Bytes of each block of the scripted target."""


@contextmanager
def looking_at(target: ScriptedTarget) -> Iterator[AllocatorReader]:
    """Open a reader for a target whose allocator is set up."""
    opened = AllocatorReader(ProcessFiles(target.pid))
    try:
        yield opened
    finally:
        opened.close()


def said(target: ScriptedTarget, devices: int) -> tuple[TorchMemory, ...]:
    """Return the figures that the target itself prints."""
    return tuple(
        torch_memory(target.numbers(device), target.pid, device, AT) for device in range(devices)
    )


def reason(target: AllocatorReader) -> str:
    with pytest.raises(UnreadableError) as refused:
        target.locate()
    return str(refused.value)


@pytest.mark.parametrize("version", ["2.0", "2.13"])
@pytest.mark.parametrize("devices", range(1, 9))
def test_every_figure_is_what_the_process_says(
    target: ScriptedTarget, version: str, devices: int
) -> None:
    target.make(devices, version)
    for device in range(devices):
        target.do("churn", device, 30 + device)
    with looking_at(target) as reader:
        reader.locate()
        assert reader.read(AT) == AllocatorReading(said(target, devices), {})
        for device in range(devices):
            target.do("churn", device, 17 * device + 1)
            target.do("oom", device)
            assert reader.read(AT) == AllocatorReading(said(target, devices), {})


def test_the_figures_are_told_apart_by_their_place_in_memory_stats(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 500)
    flat = target.numbers(0)
    arrays = [flat[at : at + 12] for at in range(0, 108, 12)]
    numbers = dict(zip(ARRAYS, arrays, strict=True))
    with looking_at(target) as reader:
        reader.locate()
        (told,) = reader.read(AT).figures
    assert told.allocated == numbers["allocated_bytes"][0] > 0
    assert told.allocated_peak == numbers["allocated_bytes"][1]
    assert told.requested == numbers["requested_bytes"][0] < told.allocated
    assert told.active == numbers["active_bytes"][0]
    assert told.reserved == numbers["reserved_bytes"][0] > told.allocated
    assert told.reserved_peak == numbers["reserved_bytes"][1]
    assert (told.reserved_allocated, told.reserved_freed) == numbers["reserved_bytes"][2:4]
    assert told.inactive_split == numbers["inactive_split_bytes"][0] > 0


@pytest.mark.parametrize("vector_at", [8, 4096, VECTOR_AT, 40_000])
def test_the_devices_are_found_wherever_the_allocator_has_them(
    target: ScriptedTarget, vector_at: int
) -> None:
    target.make(3, "2.0", vector_at)
    target.do("churn", 2, 40)
    with looking_at(target) as reader:
        reader.locate()
        # The others have held nothing, and are no devices of this process.
        assert reader.read(AT).figures == (said(target, 3)[2],)


def test_a_layout_that_is_not_known_gives_no_figure(target: ScriptedTarget) -> None:
    target.make(2, "1.13")
    target.do("churn", 0, 300)
    with looking_at(target) as reader:
        assert reason(reader) == UNKNOWN_LAYOUT
        assert reader.read(AT).figures == ()


def test_before_cuda_is_used_the_reason_is_reported_and_the_figures_come_with_the_use(
    target: ScriptedTarget,
) -> None:
    target.do("churn", 0, 0)  # it has reached its own work: the library is loaded
    with looking_at(target) as reader:
        assert reason(reader) == NOT_USED_YET
        assert reader.read(AT) == AllocatorReading((), {"": NOT_USED_YET})
        target.make(2)
        assert reason(reader) == NOT_USED_YET
        target.do("churn", 1, 5)
        reader.locate()
        assert reader.read(AT).figures == (said(target, 2)[1],)


@pytest.mark.parametrize(("command", "why"), [("async", peek.ASYNC), ("pluggable", peek.PLUGGABLE)])
def test_another_allocator_than_torch_s_own_is_named(
    target: ScriptedTarget, command: str, why: str
) -> None:
    target.make(1)
    target.do("churn", 0, 5)
    target.do(command)
    with looking_at(target) as reader:
        assert reason(reader) == why


def test_peaks_that_were_reset_are_shown_as_they_are(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 200)
    with looking_at(target) as reader:
        reader.locate()
        target.do("peaks")
        (told,) = reader.read(AT).figures
        assert told.allocated_peak == told.allocated
        assert (told,) == said(target, 1)


@pytest.mark.parametrize("opened", ["before", "after"])
def test_counts_that_were_begun_anew_are_believed_once_they_have_proved_equal(
    target: ScriptedTarget, opened: str
) -> None:
    target.make(2)
    target.do("churn", 0, 200)
    target.do("churn", 1, 20)
    with looking_at(target) as reader:
        if opened == "before":
            reader.locate()
        target.do("counts")
        target.do("churn", 0, 31)
        reader.locate()
        for _ in range(3):
            assert reader.read(AT).figures == ()
        assert reader.read(AT) == AllocatorReading(said(target, 2), {})
        target.do("churn", 0, 31)
        assert reader.read(AT) == AllocatorReading(said(target, 2), {})


@pytest.mark.parametrize("array", range(9))
def test_a_half_made_change_is_never_shown(target: ScriptedTarget, array: int) -> None:
    target.make(2)
    target.do("churn", 0, 100)
    target.do("churn", 1, 100)
    with looking_at(target) as reader:
        reader.locate()
        target.do("tear", 0, array, -1)
        for _ in range(10):  # a process may stay in it, as one that is stopped
            found = reader.read(AT)
            assert found.figures == (said(target, 2)[1],)
            assert found.unavailable == {"cuda:0": peek.IN_CHANGE}
        target.do("tear", 0, array, 1)
        assert reader.read(AT) == AllocatorReading(said(target, 2), {})


def test_a_layout_is_not_taken_from_a_half_made_change(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 100)
    target.do("tear", 0, 5, 512)
    with looking_at(target) as reader:
        assert reason(reader) == UNKNOWN_LAYOUT
        target.do("tear", 0, 5, -512)
        reader.locate()
        assert reader.read(AT).figures == said(target, 1)


def _broken(numbers: Numbers) -> str:
    """Return the invariant that a device's numbers break, computed without the reader's code."""
    for number, name in enumerate(ARRAYS):
        stats = [numbers[12 * number + 4 * pool :][:4] for pool in range(3)]
        for current, top, taken, freed in stats:
            if not 0 <= current <= top <= taken or current != taken - freed:
                return f"{name}: {current} {top} {taken} {freed}"
        for at in (0, 2, 3):
            if stats[0][at] != stats[1][at] + stats[2][at]:
                return f"{name}: {stats}"
        unit = {"allocated_bytes": UNIT, "active_bytes": UNIT, "requested_bytes": 1500}.get(name, 1)
        if any(value % unit for stat in stats for value in stat):
            return f"{name}: {stats} of {unit}"
    return ""


def _hammer(target: ScriptedTarget, version: str, readings: int, different: int, slow: int) -> None:
    """Read a process that changes its numbers without a pause.

    Args:
        target: not set up yet.
        version: of torch, whose layout it has.
        readings: that have to be shown.
        different: that have to be among them.
        slow: how long it takes between two writes of one change.
    """
    target.make(1, version)
    target.do("churn", 0, 50)
    target.do("slow", slow)
    with looking_at(target) as reader:
        reader.locate()
        target.do("hammer")
        (device,) = reader.devices
        shown = 0
        seen: set[Numbers] = set()
        while shown < readings or len(seen) < different:
            numbers = device.read()
            if numbers is None:
                continue
            shown += 1
            seen.add(numbers)
            assert not _broken(numbers)
        target.do("rest")
        assert reader.read(AT) == AllocatorReading(said(target, 1), {})


@pytest.mark.parametrize("version", ["2.0", "2.13"])
def test_no_reading_breaks_an_invariant_while_the_process_hammers(
    target: ScriptedTarget, version: str
) -> None:
    _hammer(target, version, 2000, 100, slow=20)


@pytest.mark.slow
def test_none_of_100_000_readings_breaks_an_invariant(target: ScriptedTarget) -> None:
    _hammer(target, "2.13", 100_000, 2000, slow=20)


# ---- the process comes and goes ----


def _gone(target: AllocatorReader) -> str:
    with pytest.raises(GoneError) as gone:
        target.read(AT)
    return str(gone.value)


def test_a_process_that_ends_gives_no_figure(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 5)
    with looking_at(target) as reader:
        reader.locate()
        target.process.kill()
        # Not collected: its row in the kernel's table is still there, its memory is not.
        os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
        assert "has ended" in _gone(reader)
        target.process.wait()
        assert "has ended" in _gone(reader)


def test_a_process_that_runs_another_program_gives_no_figure_of_the_first(
    target: ScriptedTarget,
) -> None:
    target.make(1)
    target.do("churn", 0, 5)
    with looking_at(target) as reader:
        reader.locate()
        target.do("churn", 0, 5)
        assert target.process.stdin is not None
        target.process.stdin.write("exec\n")
        target.process.stdin.flush()
        target.make(1)  # answered by the new program
        target.do("churn", 0, 9)
        assert "another program" in _gone(reader)
    with looking_at(target) as reader:
        reader.locate()
        assert reader.read(AT).figures == said(target, 1)


def test_a_stopped_process_is_read_as_it_stands(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 5)
    expected = said(target, 1)
    os.kill(target.pid, signal.SIGSTOP)
    with looking_at(target) as reader:
        reader.locate()
        assert reader.read(AT).figures == expected
    os.kill(target.pid, signal.SIGCONT)


def test_a_pid_that_belongs_to_another_process_is_not_read(
    target: ScriptedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.make(1)
    target.do("churn", 0, 5)
    with looking_at(target) as reader:
        reader.locate()
        monkeypatch.setattr(reader.files, "started", reader.files.started - 1)
        assert "another process" in _gone(reader)


def test_nothing_is_written_and_nothing_stops(target: ScriptedTarget) -> None:
    """The memory is opened to be read alone; the process's own state says that it never stopped."""
    target.make(1)
    target.do("churn", 0, 50)
    before = target.numbers(0)
    with looking_at(target) as reader:
        reader.locate()
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            reader.read(AT)
            assert reader.files.state() in "RS"
        flags = Path(f"/proc/self/fdinfo/{reader.memory.descriptor}").read_text("ascii")
        assert int(flags.split()[3], 8) & os.O_ACCMODE == os.O_RDONLY
    assert target.numbers(0) == before


def test_a_process_without_torch_says_so() -> None:
    with pytest.raises(UnreadableError, match="no torch is loaded"):
        AllocatorReader(ProcessFiles(os.getppid()))


def _maps(library: str) -> bytes:
    return f"7f1000000000-7f1000001000 r--p 00000000 fe:00 12 /x/torch/lib/{library}\n".encode()


def test_a_cpu_build_of_torch_is_distinguished_from_one_for_a_gpu() -> None:
    with pytest.raises(UnreadableError) as refused:
        peek.library_of_torch(_maps("libtorch_cpu.so") + _maps("libc10.so"))
    assert str(refused.value) == CPU_BUILD
    assert "CUDA build" in refused.value.advice
    found = peek.library_of_torch(_maps("libtorch_cpu.so") + _maps("libc10_cuda.so"))
    assert found.path == "/x/torch/lib/libc10_cuda.so"


def test_the_version_of_a_cpu_build_is_found_beside_its_library() -> None:
    found = peek.find_torch_library(_maps("libtorch_cpu.so") + _maps("libc10.so"))
    assert found is not None
    assert found.path == "/x/torch/lib/libc10.so"
    assert peek.find_torch_library(_maps("libc.so.6")) is None


def test_a_rocm_build_says_that_it_is_not_read() -> None:
    with pytest.raises(UnreadableError, match="a ROCm build of torch"):
        peek.library_of_torch(_maps("libtorch_cpu.so") + _maps("libc10_hip.so"))


def test_a_process_that_is_not_there_says_so() -> None:
    with pytest.raises(GoneError, match="no process 4194305"):
        ProcessFiles(4_194_305)
