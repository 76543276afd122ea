"""``gpu-workbench devices --host``, as a user runs it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.hosts.conftest import Boxes
from tests.in_process import run_here
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Gpu, Scenario, busy_box, uuid
from tests.screens.helpers import gpu, sample
from tests.tiers import VARIANT
from tui.core.text.numbers import size
from tui.devices.cli.hosts import (
    choose_exit_code,
    explain_no_gpu,
    free_devices,
    hosts_text,
    parse_until,
)
from tui.hosts.events import HostLost, HostSample
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.values import parse_duration
from tui.monitor.messages import Driver

GIB = 2**30
NAMES = ("LD_LIBRARY_PATH", "SCRIPTED_NVML", "SCRIPTED_NVML_LOG")


def _devices(boxes: Boxes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tui", "devices", "--transport", boxes.transport, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def _add_gpus(boxes: Boxes, name: str, nvml: ScriptedNvml, scenario: Scenario) -> None:
    variables = nvml.env(scenario)
    boxes.add(name, variables={key: variables[key] for key in NAMES})


def test_hosts_are_listed_in_their_order_with_what_is_free(
    boxes: Boxes, scripted_nvml: ScriptedNvml
) -> None:
    _add_gpus(boxes, "gpu1", scripted_nvml, busy_box(2))
    boxes.add("gpu2", "exit 127")
    done = _devices(boxes, "--host", "gpu2,gpu1", "--no-here")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "0 of 2 GPUs free (20.0 GiB or 90% of the memory, under 5% busy)"
    assert lines[2].startswith("gpu2  not reached: no python3 there")
    assert lines[4].startswith("gpu1  ")
    assert lines[5].startswith("  gpu1:0  ")
    assert "  cpu  " in lines[7]


def test_json_has_an_object_for_each_host(boxes: Boxes, scripted_nvml: ScriptedNvml) -> None:
    _add_gpus(boxes, "gpu1", scripted_nvml, busy_box(3))
    done = _devices(boxes, "--host", "gpu1", "--json")
    here, there = json.loads(done.stdout)["hosts"]
    assert here["host"] == "here"
    assert there["host"] == "gpu1"
    assert len(there["sample"]["devices"]) == 3


def test_it_ends_once_a_gpu_is_free(boxes: Boxes, scripted_nvml: ScriptedNvml) -> None:
    idle = Scenario(devices=(Gpu(uuid=uuid(1), util=0, used=GIB),))
    _add_gpus(boxes, "gpu1", scripted_nvml, idle)
    options = ("--host", "gpu1", "--no-here", "--until", "free 20G", "--for", "60s")
    done = _devices(boxes, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 of 1 GPU free")
    assert done.stderr.splitlines() == [
        "gpu-workbench: waiting for a GPU with 20.0 GiB free, under 5% busy, on gpu1,"
        " for 1 min 00 s at most"
    ]


def _host_without_gpu(name: str, *, missing: bool) -> HostSample:
    seen = replace(sample(), devices=(), driver=Driver(None, None, "no NVIDIA driver", missing))
    return HostSample(name, seen, None)


def test_a_wait_that_cannot_end_ends_at_once() -> None:
    lost = HostLost("gpu2", "no route", 1.0)
    none, broken = (_host_without_gpu("gpu1", missing=missing) for missing in (True, False))
    starting = replace(none, sample=replace(none.sample, nvml_silent_s=0.5))
    alone = _host_without_gpu("here", missing=True)
    assert explain_no_gpu((alone,), 1) == (
        "no GPU can become free: there is no GPU and no NVIDIA driver here"
    )
    assert explain_no_gpu((none,), 1).endswith("on any of these hosts")
    for newest, hosts in (
        ((), 1),
        ((none,), 2),
        ((none, lost), 2),
        ((broken,), 1),
        ((starting,), 1),
    ):
        assert explain_no_gpu(newest, hosts) == ""


def test_a_wait_for_more_than_any_gpu_has_ends_at_once() -> None:
    here = HostSample("here", sample(gpu()), None)
    total = here.sample.devices[0].memory.total
    assert total is not None
    assert explain_no_gpu((here,), 1, total) == ""
    assert explain_no_gpu((here,), 1, 2 * total) == (
        f"no GPU here can have so much free: the largest has {size(total)} in all, less than"
        f" {size(2 * total)}"
    )
    assert explain_no_gpu((here,), 2, 2 * total) == "", "another host may have one"


def test_it_fails_where_no_gpu_becomes_free_in_time(boxes: Boxes) -> None:
    boxes.add("gpu1")
    done = _devices(boxes, "--host", "gpu1", "--no-here", "--until", "free 20G", "--for", "1s")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].endswith("on gpu1, for 1 s at most")
    *_, reason = done.stderr.splitlines()
    # A machine without a driver is known before the time is over.
    assert reason.removeprefix("gpu-workbench: ").startswith(
        ("no GPU had 20.0 GiB free and was idle within 1", "no GPU can become free: ")
    )


@VARIANT
def test_samples_come_as_lines_until_the_reader_has_enough(boxes: Boxes) -> None:
    boxes.add("gpu1")
    done = _devices(boxes, "--host", "gpu1", "--no-here", "--jsonl", "--for", "3s")
    actual = [json.loads(line) for line in done.stdout.splitlines()]
    assert {item["host"] for item in actual} <= {"gpu1"}
    assert done.returncode == (0 if actual else 1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--host=-x",), "-x begins with a dash"),
        (("--host", "here"), "the name is given twice"),
        (("--no-here",), "name other hosts"),
        (("--slurm",), "no allocation here"),
        (("--host", "a", "--host-python", "b=python3"), "--host does not name it"),
        (("--host", "a", "--host-python", "a"), "give a host and a Python"),
        (("--host", "a", "--until", "20G"), "free 20G"),
        (("--host", "a", "--until", "free lots"), "give bytes"),
        (("--host", "a", "--until", "free 5"), "5 of what? Give a unit, such as 'free 5G'"),
        (("--host", "a", "--for", "soon"), "90s, 5m or 1h"),
        (("--host", "a", "--json", "--jsonl"), "give one of them"),
    ],
)
def test_options_that_cannot_be_carried_out_are_refused(
    boxes: Boxes, arguments: tuple[str, ...], reason: str
) -> None:
    done = run_here("devices", "--transport", boxes.transport, *arguments)
    assert done.code == 2
    assert reason in done.err
    assert len(done.err.splitlines()) == 1


def test_times_and_sizes_are_read_as_they_are_typed() -> None:
    assert [parse_duration(text) for text in ("90", "90s", "1.5m", "1h")] == [90, 90, 90, 3600]
    assert parse_until("free 20G") == 20 * GIB
    with pytest.raises(UsageError):
        parse_duration("0s")


def test_the_gpus_of_one_machine_under_two_names_count_once(
    boxes: Boxes, scripted_nvml: ScriptedNvml
) -> None:
    idle = Scenario(devices=tuple(Gpu(uuid=uuid(item), util=0, used=GIB) for item in (1, 2)))
    for name in ("gpu1", "alias"):
        _add_gpus(boxes, name, scripted_nvml, idle)
    done = _devices(boxes, "--host", "gpu1,alias", "--no-here")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 of 2 GPUs free")
    (first,), (second,) = (
        [line for line in lines if line.startswith(f"{name}  ")] for name in ("gpu1", "alias")
    )
    assert "same" not in first
    assert "  same machine as gpu1  " in second


@VARIANT
def test_a_reader_that_has_enough_lines_ends_it_without_a_word(boxes: Boxes) -> None:
    boxes.add("gpu1")
    words = ("--transport", boxes.transport, "--host", "gpu1", "--no-here", "--jsonl")
    program = shlex.join((sys.executable, "-m", "tui", "devices", *words))
    shell = f"{program} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, timeout=100, check=False
    )
    assert json.loads(done.stdout)["host"] == "gpu1"
    # As a shell reports it of a program that SIGPIPE has ended.
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_host_that_is_not_reached_has_no_free_gpu() -> None:
    assert list(free_devices((HostLost("a", "why", 1.0),), 1)) == []


def test_a_small_gpu_is_free_with_most_of_its_memory() -> None:
    total = 8 * GIB
    free, used = (
        gpu(
            n,
            memory=replace(gpu(n).memory, total=total, free=left),
            utilization=replace(gpu(n).utilization, gpu=0),
        )
        for n, left in enumerate((total - GIB // 4, total - GIB))
    )
    events = [HostSample("a", sample(free, used), 0.01)]
    assert [device.id for _, device in free_devices(events)] == [free.id]
    assert hosts_text(events).startswith("1 of 2 GPUs free (20.0 GiB or 90% of the memory, under")
    # A size that the user names applies to each GPU.
    assert not list(free_devices(events, 20 * GIB))
    assert hosts_text(events, 20 * GIB).startswith("0 of 2 GPUs free (20.0 GiB or more, under")


def test_this_machine_does_not_stand_for_the_named_hosts() -> None:
    lost, here, there = (
        HostLost("a", "why", 1.0),
        *(HostSample(name, sample(), None) for name in ("here", "b")),
    )
    assert choose_exit_code((here,)) == 0
    assert choose_exit_code((here, lost)) == 1
    assert choose_exit_code((here, lost, there)) == 0
    assert choose_exit_code(()) == 1


def test_mig_instances_have_names_of_their_own() -> None:
    whole = gpu(0, mig=True)
    instances = [gpu(0, id=f"MIG-{name}", parent=whole.id) for name in "ab"]
    lines = hosts_text([HostSample("a", sample(whole, *instances), 0.01)]).splitlines()
    assert lines[0].endswith("(20.0 GiB or 90% of the memory, under 5% busy)")
    assert [line.split()[0] for line in lines[3:6]] == ["a:0", "a:0.0", "a:0.1"]


def test_no_answer_is_not_said_to_be_no_gpu() -> None:
    lost, bare = HostLost("a", "why", 1.0), HostSample("b", sample(), 0.01)
    assert hosts_text([lost]).splitlines()[0] == "no host was reached"
    first = hosts_text([lost, bare]).splitlines()[0]
    assert first == "no GPU found on the hosts that were reached"
    assert hosts_text([bare]).splitlines()[0] == "no GPU found"
