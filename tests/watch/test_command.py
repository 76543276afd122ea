"""``gpu-workbench watch``: which GPU a device is, the exact object, exit codes, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psutil
import pytest

from tests.screens.helpers import gpu
from tests.tiers import VARIANT
from tests.watch.target import TORCH, ScriptedTarget
from tui.allocators.discover import absent
from tui.allocators.messages import (
    Placed,
    ProcessFigures,
    TorchProcess,
    listed_in,
    place_listed,
    rows_by_pid,
)
from tui.allocators.process_files import Refusal
from tui.monitor.messages import Device, GpuProcess
from tui.watch.cli.output import (
    WHAT_IS_READ,
    encode_processes,
    reasons,
    rows_of,
    table_lines,
    wrap,
)
from workloads.protocol.messages import TorchMemory

PID, START = 77, 1_700_000_000.0
GIB = 2**30
NAMES = ("rank", "local_rank", "world_size", "launcher", "visible_devices")


def process(**changes: Any) -> TorchProcess:
    known = replace(
        absent(PID, Refusal("")),
        start=START,
        parent=1,
        user="ada",
        command="python train.py",
        torch="2.13.0",
        refused=False,
        unavailable=dict.fromkeys(NAMES, "not told"),
    )
    return replace(known, **changes)


def figures(ordinal: int, reserved: int = GIB) -> TorchMemory:
    return TorchMemory(
        device=f"cuda:{ordinal}",
        pid=PID,
        at=5.0,
        requested=1,
        allocated=2,
        active=3,
        reserved=reserved,
        inactive_split=4,
        allocated_peak=5,
        reserved_peak=6,
        alloc_retries=7,
        ooms=8,
    )


def devices(*held: int | None, name: str = "H200") -> tuple[Device, ...]:
    """Devices ``GPU-0`` and so on, with what NVML says that the process holds on each."""
    found = []
    for index, memory in enumerate(held):
        row = GpuProcess(PID, "ada", "python", memory, "compute", START)
        rows = () if memory is None else (row,)
        found.append(
            replace(gpu(index), id=f"GPU-{index}", nvml_index=index, name=name, processes=rows)
        )
    return tuple(found)


def placed_on(
    of: TorchProcess, its: Sequence[TorchMemory], nvml: Sequence[Device]
) -> dict[str, Placed]:
    """Return the GPU of each device of a process, as NVML lists the process."""
    return place_listed(of, its, nvml, listed_in(of, rows_by_pid(nvml).get(of.pid, {})))


def ids(of: TorchProcess, ordinals: Sequence[int], nvml: tuple[Device, ...]) -> list[str | None]:
    placed = placed_on(of, [figures(ordinal) for ordinal in ordinals], nvml)
    for each in placed.values():
        assert (each.id is None) == bool(each.why_no_id)
        assert (each.process is None) == bool(each.why_no_process)
    return [each.id for each in placed.values()]


# ---- which GPU it is ----


def test_one_device_that_nvml_lists_once_is_that_one() -> None:
    # Whatever the process has set itself, and whatever it was started with.
    wrong = process(visible_devices="0")
    assert ids(wrong, [0], devices(None, 2 * GIB)) == ["GPU-1"]
    assert ids(wrong, [3], devices(None, 2 * GIB)) == ["GPU-1"]


def test_several_are_identified_by_the_order_that_the_process_was_given() -> None:
    both = devices(3 * GIB, 2 * GIB)
    assert ids(process(), [0, 1], both) == ["GPU-0", "GPU-1"]
    assert ids(process(visible_devices="1,0"), [0, 1], both) == ["GPU-1", "GPU-0"]
    assert ids(process(visible_devices="GPU-1, GPU-0"), [0, 1], both) == ["GPU-1", "GPU-0"]
    # A context without tensors is listed too.
    assert ids(process(), [1], both) == ["GPU-1"]


@pytest.mark.parametrize(
    ("of", "nvml"),
    [
        # It has set another itself: it is listed where it could not be.
        (process(visible_devices="0,1"), devices(None, None, 2 * GIB, 2 * GIB)),
        # It holds less there than torch has reserved.
        (process(), devices(2 * GIB, GIB // 2)),
        # CUDA ignores what follows a device that is not there.
        (process(visible_devices="0,9,1"), devices(2 * GIB, 2 * GIB)),
        (process(visible_devices=""), devices(2 * GIB, 2 * GIB)),
    ],
)
def test_a_gpu_that_nvml_contradicts_is_not_identified(
    of: TorchProcess, nvml: tuple[Device, ...]
) -> None:
    assert ids(of, [0, 1], nvml) == [None, None]


def test_devices_of_several_kinds_need_the_order_of_the_bus() -> None:
    mixed = (*devices(2 * GIB), *devices(2 * GIB, 2 * GIB, name="T4")[1:])
    assert ids(process(), [0, 1], mixed) == [None, None]
    assert ids(process(device_order="PCI_BUS_ID"), [0, 1], mixed) == ["GPU-0", "GPU-1"]


def test_a_mig_instance_is_identified_and_never_its_gpu() -> None:
    gpu_0, one, other = devices(2 * GIB, 2 * GIB, None)
    nvml = (gpu_0, replace(one, parent="GPU-0"), replace(other, parent="GPU-0"))
    assert ids(process(), [0], nvml) == ["GPU-1"]
    assert ids(process(visible_devices="GPU-1"), [0], nvml) == ["GPU-1"]


@pytest.mark.parametrize(
    ("nvml", "why"),
    [
        ((), "this machine has no NVML device"),
        (devices(None), "in a container it lists the host's pids"),
        (
            tuple(
                replace(each, processes=None, unavailable={"processes": "not under MIG"})
                for each in devices(None)
            ),
            "not under MIG",
        ),
    ],
)
def test_without_nvml_s_word_the_reason_is_reported(nvml: tuple[Device, ...], why: str) -> None:
    (placed,) = placed_on(process(), [figures(0)], nvml).values()
    assert placed.id is None
    assert why in placed.why_no_id
    assert placed.why_no_process == placed.why_no_id


def test_a_pid_that_was_another_process_s_when_nvml_listed_it_is_not_taken() -> None:
    later = process(start=START + 60)
    assert ids(later, [0], devices(2 * GIB)) == [None]


def test_a_figure_that_nvml_does_not_give_is_absent_with_its_reason() -> None:
    (device,) = devices(2 * GIB)
    assert device.processes is not None
    row = replace(device.processes[0], memory=None, unavailable={"memory": "the driver does not"})
    placed = placed_on(process(), [figures(0)], (replace(device, processes=(row,)),))
    total = device.memory.total
    assert placed["cuda:0"] == Placed("GPU-0", None, "", "the driver does not", total)


# ---- the object and the text ----


def every_null(value: Any, path: str) -> list[str]:
    if value is None:
        return [path]
    if isinstance(value, dict):
        return [each for key, part in value.items() for each in every_null(part, f"{path}.{key}")]
    return []


def nulls(plain: dict[str, Any]) -> set[str]:
    """Return the paths that must have a reason."""
    found = set()
    for place, each in enumerate(plain["processes"]):
        path = f"processes.{place}"
        found |= set(every_null({key: each[key] for key in each if key != "devices"}, path))
        for index, device in enumerate(each["devices"]):
            found |= set(every_null(device, f"{path}.devices.{index}"))
    return found


READ = process()
REFUSED = process(reason="it is run by ada: no", advice="sudo x", refused=True)
WAITING = process(reason="CUDA is not used yet")


@pytest.mark.parametrize(
    ("of", "said", "nvml", "sources"),
    [
        (READ, ProcessFigures(5.0, (figures(0),)), devices(2 * GIB), ["nvml", "allocator"]),
        (READ, ProcessFigures(5.0, (figures(0),)), (), ["allocator"]),
        (READ, ProcessFigures(5.0, (), {f"{PID} cuda:0": "it changes"}), (), []),
        (REFUSED, ProcessFigures(5.0, ()), devices(2 * GIB, GIB), ["nvml"]),
        (WAITING, ProcessFigures(5.0, ()), (), []),
        (absent(PID, Refusal("there is none")), ProcessFigures(5.0, ()), (), []),
    ],
)
def test_each_null_has_its_reason_and_there_is_no_other(
    of: TorchProcess, said: ProcessFigures, nvml: tuple[Device, ...], sources: list[str]
) -> None:
    plain = encode_processes(rows_of([of], said, nvml))
    assert plain["processes"][0]["sources"] == sources
    about_the_process = {"processes.0"} if of.reason else set()
    assert set(plain["unavailable"]) == nulls(plain) | about_the_process
    assert all(plain["unavailable"].values())


def test_the_table_has_a_line_for_each_device_and_a_reason_for_what_is_not_read() -> None:
    other = replace(REFUSED, pid=99, command="python serve.py")
    rows = rows_of(
        [process(rank=1, world_size=8), other],
        ProcessFigures(5.0, (figures(0), figures(1))),
        devices(2 * GIB, 3 * GIB),
    )
    heading, *lines = table_lines(rows)
    assert heading.split()[:5] == ["pid", "user", "rank", "torch", "device"]
    assert lines[0].split()[:7] == ["77", "ada", "1/8", "2.13.0", "cuda:0", "2", "B"]
    assert "3.0 GiB" in lines[1]
    assert lines[1].endswith("python train.py")
    assert lines[2].split()[:5] == ["99", "ada", "n/a", "2.13.0", "n/a"]
    assert reasons(rows) == ["99: it is run by ada: no; sudo x"]
    assert len({len(line) for line in (heading, *lines)}) <= 3  # the last column is not filled up


def test_a_wrapped_sentence_keeps_a_command_whole() -> None:
    assert wrap(["run gpu-workbench watch"], 15) == ["run", "  gpu-workbench", "  watch"]


@pytest.mark.parametrize(
    ("room", "left_out"),
    [
        (200, set()),
        (100, {"torch"}),
        (80, {"torch", "user", "peak"}),
        (74, {"torch", "user", "peak", "ooms"}),
    ],
)
def test_where_there_is_no_room_columns_are_left_out(room: int, left_out: set[str]) -> None:
    rows = rows_of([process(rank=0)], ProcessFigures(5.0, (figures(0),)), devices(2 * GIB))
    whole, narrow = table_lines(rows)[0].split(), table_lines(rows, room)[0].split()
    assert set(whole) - set(narrow) == left_out
    assert all(len(line) <= room for line in table_lines(rows, room))
    assert all(len(line) <= 20 for line in table_lines(rows, 20))


# ---- the command ----


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tui", "watch", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(*arguments: object) -> tuple[int, str, str]:
    running = start(*arguments)
    out, errors = running.communicate(timeout=60)
    return running.returncode, out, errors


def test_one_look_as_json_is_the_exact_object(target: ScriptedTarget) -> None:
    target.make(2)
    target.do("churn", 1, 40)
    code, out, errors = done("--pid", target.pid, "--json")
    assert (code, errors) == (0, "")
    found = json.loads(out)
    assert list(found) == ["schema", "processes", "unavailable"]
    (one,) = found["processes"]
    assert list(one) == [
        *("pid", "start", "command", "user", "rank", "torch"),
        *("host_rss", "sources", "devices"),
    ]
    assert 0 < one["host_rss"] < psutil.virtual_memory().total
    (device,) = one["devices"]
    assert list(device) == [
        *("ordinal", "id", "allocated", "allocated_peak", "reserved", "reserved_peak"),
        *("requested", "active", "inactive_split", "process", "alloc_retries", "ooms"),
    ]
    numbers = target.numbers(1)
    assert (one["pid"], one["torch"], device["ordinal"]) == (target.pid, TORCH, 1)
    assert (device["allocated"], device["reserved"]) == (numbers[48], numbers[60])
    assert "allocator" in one["sources"]


@VARIANT
def test_it_goes_on_until_the_process_has_ended(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    running = start("--pid", target.pid, "--jsonl", "--every", 0.05)
    assert running.stdout is not None
    wanted = target.numbers(0)[48]
    for line in running.stdout:
        found = json.loads(line)
        assert found["at"]
        if [each["allocated"] for each in found["processes"][0]["devices"]] == [wanted]:
            break
    target.process.kill()
    target.process.wait()
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 0
    assert errors == f"gpu-workbench: {WHAT_IS_READ}\n"
    assert all(json.loads(line)["schema"] == 1 for line in out.splitlines())


@VARIANT
def test_every_with_a_process_prints_a_table_until_it_has_ended(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    running = start("--pid", target.pid, "--every", 0.05)
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(4)]
    assert [line.split()[0] for line in lines[1::2]] == [str(target.pid)] * 2
    target.process.kill()
    target.process.wait()
    out, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, "")
    assert out.endswith(f"{WHAT_IS_READ}\n")


def test_ctrl_c_ends_it_with_what_was_seen(target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    running = start("--pid", target.pid, "--for", 60)
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(2)]
    assert lines[1].split()[0] == str(target.pid)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in out + errors
    assert out.endswith(f"{WHAT_IS_READ}\n")


@VARIANT
def test_what_gives_no_figures_is_exit_code_1_and_says_why(target: ScriptedTarget) -> None:
    code, out, _ = done("--pid", target.pid)
    assert code == 1
    assert f"{target.pid}: CUDA is not used yet" in out
    assert WHAT_IS_READ not in out


@VARIANT
def test_what_has_no_figures_yet_is_printed_once(target: ScriptedTarget) -> None:
    code, out, _ = done("--pid", target.pid, "--for", 0.5, "--every", 0.05)
    assert code == 1
    assert out.count(f"{target.pid}: CUDA is not used yet") == 1
    assert len(out.splitlines()) == 3


@VARIANT
def test_of_a_process_that_does_not_exist_only_the_reason_is_printed() -> None:
    pid = 2**22 + 1  # above the largest pid of Linux
    code, out, errors = done("--pid", pid)
    assert code == 1
    assert out.startswith(f"there is no process {pid}: ")
    assert out.count(str(pid)) == 1
    assert (out.count("\n"), errors) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-children",),
        ("--every", "2"),
        ("--pid", "x"),
        ("--pid", "0"),
        ("--for", "0", "--pid", "1"),
        ("--for", "nan"),
        ("rm",),
        ("keep",),
        ("--every", "0.01", "--for", "1"),
        ("--json", "--jsonl"),
    ],
)
def test_what_cannot_be_carried_out_is_reported_in_one_line(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tui.cli.main import main

    monkeypatch.setattr(sys, "argv", ["gpu-workbench", "watch", *arguments])
    assert main() == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
