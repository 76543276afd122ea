"""A driver call that never comes back, that takes long, or that ends in an unforeseen way."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.monitor.conftest import Start
from tests.nvml.fixtures import LIBRARY, ScriptedNvml, compile_library
from tests.nvml.scenario import Gpu, Scenario, uuid
from tests.tiers import VARIANT, with_variants

TWO = Scenario(devices=(Gpu(uuid=uuid(0)), Gpu(uuid=uuid(1), util=7)))
HANGS = TWO.returns("nvmlDeviceGetPowerUsage", device=1, hang=True)


def threads(pid: int) -> int:
    return int(psutil.Process(pid).num_threads())


def test_t10_a_call_that_hangs_stops_neither_the_samples_nor_the_end(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    process = monitor(TWO)
    before = process.until(lambda s: len(s.devices) == 2)
    at_work = threads(process.pid)

    scripted_nvml.change(HANGS)

    sample = process.until(lambda s: s.nvml_silent_s)
    assert sample.nvml_silent_s is not None
    assert sample.nvml_silent_s > 3
    assert sample.driver.error is not None
    assert sample.driver.error.startswith("NVML has not answered for 3 s")
    assert sample.driver.version == before.driver.version
    assert [device.id for device in sample.devices] == [device.id for device in before.devices]
    # The device that hangs keeps its last figures, and the time at which they were read.
    assert sample.devices[1].power_w == before.devices[1].power_w
    assert sample.devices[1].lost is None
    assert sample.at - sample.devices[1].read_at > 3

    later = process.after(5)
    assert later.nvml_silent_s is not None
    assert later.nvml_silent_s > sample.nvml_silent_s
    assert later.devices[1].read_at == sample.devices[1].read_at
    assert threads(process.pid) == at_work

    process.watch(process.pid)
    assert process.until(lambda s: s.watched).watched[0].pid == process.pid

    process.close_stdin()
    assert process.wait() == 0


@pytest.mark.parametrize(
    "function",
    with_variants(["nvmlInitWithFlags"], ["nvmlDeviceGetCount_v2", "nvmlDeviceGetName"]),
)
@VARIANT
def test_t10_a_driver_that_hangs_from_the_start_is_reported_to_be_starting(
    monitor: Start, function: str
) -> None:
    process = monitor(Scenario().returns(function, hang=True))
    process.hello()

    sample = process.after(3)

    assert sample.devices == ()
    assert sample.driver.error is not None
    assert "still starting" in sample.driver.error
    assert sample.nvml_silent_s is not None
    assert sample.host.cpu.cores > 0

    process.child.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM


def test_a_device_before_the_one_that_hangs_is_shown(monitor: Start) -> None:
    sample = monitor(HANGS).until(lambda s: s.devices)

    assert [device.id for device in sample.devices] == [uuid(0)]


@VARIANT
def test_t11_slow_calls_make_looks_rarer_and_never_overlap(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    slow = TWO.returns("nvmlDeviceGetPowerUsage", sleep_s=0.2)
    process = monitor(slow)
    first = process.until(lambda s: s.took_s > 0)

    assert first.took_s >= 0.4
    # Samples go on at their own pace, and tell how old the devices are.
    read = [process.sample().devices[0].read_at for _ in range(6)]
    assert len(set(read)) < len(read)
    assert process.sample().nvml_silent_s is None
    assert threads(process.pid) == 3  # samples, NVML, requests
    assert scripted_nvml.calls()["nvmlInitWithFlags", -1] == 1


BROKEN_BINDING = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("real_pynvml", {real!r})
real = importlib.util.module_from_spec(spec)
sys.modules["real_pynvml"] = real
spec.loader.exec_module(real)
globals().update(vars(real))

def nvmlDeviceGetPowerUsage(handle):
    if os.path.exists({flag!r}):
        raise TypeError("scripted\\nin two lines")
    return real.nvmlDeviceGetPowerUsage(handle)
"""


def test_t12_an_unforeseen_error_is_reported_and_the_reading_starts_anew(
    monitor: Start, scripted_nvml: ScriptedNvml, tmp_path: Path
) -> None:
    found = importlib.util.find_spec("pynvml")
    assert found is not None
    real = found.origin
    flag = tmp_path / "broken"
    (tmp_path / "pynvml.py").write_text(BROKEN_BINDING.format(real=real, flag=str(flag)))
    process = monitor(Scenario(), {"PYTHONPATH": str(tmp_path)})
    before = process.until(lambda s: s.devices)
    assert before.problems == ()

    flag.touch()

    sample = process.until(lambda s: s.problems)
    assert sample.problems == (
        "reading NVML failed and is tried again: TypeError: scripted in two lines",
    )
    # The figures stay, and are as old as they say.
    old = process.after(2)
    assert old.devices[0].read_at <= sample.devices[0].read_at < old.at
    assert old.problems

    flag.unlink()

    sample = process.until(lambda s: not s.problems)
    assert sample.devices[0].read_at > old.devices[0].read_at
    assert scripted_nvml.calls()["nvmlInitWithFlags", -1] >= 2
    process.end()
    assert "TypeError: scripted" in process.errors


@pytest.mark.parametrize(("crash", "code"), [("abort", -6), ("segv", -11)])
def test_a_crash_of_the_driver_is_the_end_of_the_monitor_alone(
    monitor: Start, crash: str, code: int
) -> None:
    scenario = Scenario().returns(
        "nvmlDeviceGetPowerUsage",
        crash=crash,  # type: ignore[arg-type]
        after_calls=3,
    )
    process = monitor(scenario)
    process.until(lambda s: s.devices)

    assert process.wait() == code


HANGS_WHEN_LOADED = """
#include <unistd.h>
__attribute__((constructor)) static void hang(void) { for (;;) pause(); }
"""


@pytest.mark.parametrize("library", with_variants(["libnvidia-ml.so.1"], ["libcuda.so.1"]))
@VARIANT
def test_t10_a_driver_whose_library_hangs_when_it_is_loaded_leaves_the_hosts_figures(
    monitor: Start, tmp_path: Path, library: str
) -> None:
    source = tmp_path / "hang.c"
    source.write_text(HANGS_WHEN_LOADED)
    compile_library(source, tmp_path / library)
    process = monitor(env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    process.hello()

    first, later = process.sample(), process.after(5)

    assert later.host.cpu.cores > 0
    assert later.host.memory.used
    assert later.at > first.at
    # Without NVML, libcuda is looked for where there is no other trace of a driver.
    if library == LIBRARY:
        assert later.driver.error is not None
        assert "still starting" in later.driver.error
    process.close_stdin()
    assert process.wait() == 0
