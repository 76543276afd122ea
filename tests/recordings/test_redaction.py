"""A redacted recording tells what ran and what it held, and not whose it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import environment, gpu, gpu_process, sample
from tests.screens.watching import told, torch_process
from tui.core.events import LogLine, RunnerStatus
from tui.core.text.redact import HOST
from tui.devices.state.machine import DeviceSelected, PeaksReset
from tui.hosts.events import HostLost, HostSample, HostsNamed
from tui.monitor.messages import HostProcesses, ParentProcess
from tui.recordings.lines import AnyEvent
from tui.recordings.recorder import Redaction, extract_program_name
from tui.runs.state.events import CeilingsRead, HostRunEvent
from workloads.protocol import messages, wire
from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity
from workloads.protocol.results import Ceiling, TorchDevice

SECRET = "grace"


def redaction() -> Redaction:
    return Redaction(Path("/home/linus"))


def crowded(user: str) -> AnyEvent:
    command = f"python /data/{user}/train.py --token=hf_{user} --name {user}"
    # One who started a process and owns none of the list is not to be told either.
    parent = ParentProcess(9, f"{user}-launcher", f"torchrun --data /srv/{user}-launcher", 1.0)
    row = gpu_process(user=user, command=command, parent=parent)
    found = sample(gpu(processes=(row, gpu_process(user=None, command=None))))
    return replace(found, host_processes=HostProcesses((row,), 3, 10, 0))


def test_of_processes_the_program_stays_and_the_people_go() -> None:
    found = redaction()(crowded(SECRET))
    text = wire.encode(found).decode()
    assert SECRET not in text
    assert "gpu-box-3" not in text
    assert f'"name":"{HOST}"' in text
    assert '"user":"user","command":"python"' in text
    assert '"user":null,"command":null' in text


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=10).map("zq".__add__))
def test_no_name_of_a_user_is_left_in_a_sample(user: str) -> None:
    assert user not in wire.encode(redaction()(crowded(user))).decode()


def test_of_torch_processes_the_program_stays_and_the_people_go() -> None:
    found = redaction()(
        told(
            torch_process(
                user=SECRET,
                command=f"/home/{SECRET}/venv/bin/python train.py --token=hf_x",
                launched_by=ParentProcess(9, SECRET, f"torchrun /srv/{SECRET}", 1.0),
                reason=f"it is run by {SECRET} (uid 7): only that user and root may read it",
                word="denied",
            )
        )
    )
    text = wire.encode(found).decode()
    assert SECRET not in text
    assert "hf_x" not in text
    assert '"command":"python"' in text
    assert '"command":"torchrun"' in text
    assert "it is run by user (uid 7)" in text


@pytest.mark.parametrize(
    "event",
    [
        LogLine("workbench", "report: /home/linus/.local/state/x and /scratch/linus/y"),
        RunnerStatus("restarting", "/home/linus/x", report="/home/linus/.local/x"),
        messages.Hello(1, 2, "3.11", "python", (), ("/Users/linus/w.py: line 3: no workload",)),
    ],
)
def test_our_own_home_goes_from_every_text(event: AnyEvent) -> None:
    text = wire.encode(redaction()(event)).decode()
    assert "linus" not in text
    assert "user" in text


def test_of_the_python_that_runs_the_workloads_its_name_stays() -> None:
    said = messages.Hello(1, 2, "3.11", "/srv/secret/venv/bin/python3.11", ())
    assert redaction()(said).executable == "python3.11"
    there = environment(executable="/srv/secret/venv/bin/python3.11")
    assert redaction()(messages.Ready(there, 1.0)).environment.executable == "python3.11"


def test_a_name_that_a_sample_told_goes_from_what_follows() -> None:
    redact = redaction()
    line = LogLine("runner", f"/data/{SECRET}/x")
    assert redact(line) == line
    redact(crowded(SECRET))
    assert redact(line).text == "/data/user/x"


def test_figures_stay_as_they_are() -> None:
    event = sample(gpu(), gpu(1))
    found = redaction()(event)
    for before, after in zip(event.devices, found.devices, strict=True):
        assert replace(before, id="", processes=None) == replace(after, id="", processes=None)
        assert [row.memory for row in before.processes or ()] == [
            row.memory for row in after.processes or ()
        ]


_uuids = st.uuids().map(str)


@given(st.lists(_uuids, min_size=1, max_size=4, unique_by=lambda each: each[:8]), st.booleans())
def test_no_uuid_of_a_gpu_is_left_and_each_has_one_stand_in(uuids: list[str], short: bool) -> None:
    redact = redaction()
    chosen = ",".join(f"GPU-{each[:8]}" if short else f"GPU-{each}" for each in uuids)
    process = redact(told(torch_process(visible_devices=chosen)))
    found = redact(sample(*(gpu(place, id=f"GPU-{each}") for place, each in enumerate(uuids))))
    again = [
        TorchDevice(f"cuda:{place}", "x", uuid=f"GPU-{each}") for place, each in enumerate(uuids)
    ]
    ready = redact(messages.Ready(environment(devices=tuple(again)), 1.0))
    line = redact(LogLine("runner", f"MIG-GPU-{uuids[0].upper()}/1/0 and {uuids[0]} are lost"))
    written = "".join(wire.encode(each).decode() for each in (process, found, ready, line)).lower()
    assert not any(each[:8] in written for each in uuids if each[:8] != "00000000")
    stand_ins = [device.id for device in found.devices]
    assert len(set(stand_ins)) == len(uuids)
    assert process.processes[0].visible_devices == ",".join(stand_ins)
    assert [device.uuid for device in ready.environment.devices] == stand_ins
    number = stand_ins[0].removeprefix("GPU-")
    assert line.text == f"MIG-GPU-{number}/1/0 and {number} are lost"


def test_two_uuids_that_begin_alike_stay_two() -> None:
    redact = redaction()
    one, other = (f"GPU-8932f937-d72c-4106-c12f-20bd9faed9f{end}" for end in "67")
    texts = [redact(LogLine("runner", each)).text for each in ("GPU-8932f937", one, other, one)]
    assert texts[0] == texts[1] == texts[3] != texts[2]


@pytest.mark.parametrize("words", ["GPU-accelerated", "GPU-hours", "cpu-0", "0-3,8-11", "a-b-c"])
def test_what_is_no_uuid_stays(words: str) -> None:
    assert redaction()(LogLine("runner", words)).text == words


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py", "python"),
        ("/home/grace/venv/bin/python3.11 -m x", "python3.11"),
        ("postgres: grace idle", "postgres"),
        ("", ""),
    ],
)
def test_the_program_of_a_command_line(command: str, name: str) -> None:
    assert extract_program_name(command) == name


def test_names_of_other_hosts_are_left_out() -> None:
    found = redaction()
    named = found(HostsNamed(("gpu1", "ada@gpu2"), here=True))
    assert named.names == ("host1", "host2")
    lost = found(HostLost("ada@gpu2", "ssh: connect to host gpu2.example port 22", 1.0))
    assert lost.host == "host2"
    assert "gpu2" not in str(lost)
    there = found(HostSample("gpu1", sample(), 0.1))
    assert there.host == "host1"
    assert there.sample.host.name == HOST
    assert found(DeviceSelected("gpu1:3")) == DeviceSelected("host1:3")
    assert found(PeaksReset("ada@gpu2:cpu")) == PeaksReset("host2:cpu")
    assert found(DeviceSelected("cpu")) == DeviceSelected("cpu")


def test_what_identifies_a_machine_is_left_out() -> None:
    machine = MachineIdentity("boot 1", 1000.0, "pid:[1] net:[1]")
    found = redaction()
    there = sample()
    there = replace(there, host=replace(there.host, identity=machine))
    assert found(HostSample("gpu1", there, 0.1)).sample.host.identity == UNKNOWN
    assert found(messages.Ready(environment(), 1.0, machine)).identity == UNKNOWN


def test_the_names_of_hosts_are_left_out_of_what_runs_there() -> None:
    found = redaction()
    found(HostsNamed(("gpu1", "ada@gpu2"), here=True))
    for event in (
        RunnerStatus("unusable", "connection to ada@gpu2 lost", "run `ssh ada@gpu2` once"),
        messages.Rejected("run-1", "connection to ada@gpu2 lost"),
        messages.Unusable("no torch", "give --host-python ada@gpu2=PATH", "ssh: gpu2: 10.0.0.2"),
        messages.WorkerEnded(1, "killed on gpu2", expected=False),
        messages.Ready(environment(executable="/home/ada/gpu2/bin/python"), 1.0),
    ):
        redacted = found(HostRunEvent("ada@gpu2", event))
        assert redacted.host == "host2"
        assert type(redacted.event) is type(event)
        assert "gpu2" not in str(redacted)


def test_ssh_s_words_are_left_out_of_what_cannot_run_there() -> None:
    said = messages.Unusable("ssh: connect to 10.0.0.2 port 22", "run `ssh gpu2`", "10.0.0.2")
    assert "10.0.0.2" not in str(redaction()(HostRunEvent("gpu2", said)))


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("trainbox-a: the runner ended: killed", "host1: the runner ended: killed"),
        ("ada@gpu2: connection to gpu2 lost", "host2: connection to host2 lost"),
        ("docker:box: no such container: box", "host3: no such container: host3"),
        ("node17.corp.example is slow", "host1 is slow"),
        ("host1: there is no runner", "host4: there is no runner"),
        ("gpu22, GPU2 and trainbox-ab stay", "gpu22, GPU2 and trainbox-ab stay"),
    ],
)
def test_the_names_of_hosts_are_left_out_of_the_log(text: str, redacted: str) -> None:
    found = redaction()
    found(HostsNamed(("trainbox-a", "ada@gpu2", "docker:box", "host1"), here=True))
    there = sample()
    named = replace(there, host=replace(there.host, name="node17.corp.example"))
    found(HostSample("trainbox-a", named, 0.1))
    assert found(LogLine("workbench", text)).text == redacted


def test_figures_stay_where_a_host_has_a_number_in_its_name() -> None:
    found = redaction()
    found(HostsNamed(("ada@2001:db8::580", "kubectl:pod/95"), here=True))
    text = "2001:db8::580 and kubectl:pod/95: driver 580.95.05, 95% of 580 W"
    redacted = "host1 and host2: driver 580.95.05, 95% of 580 W"
    assert found(LogLine("workbench", text)).text == redacted


def test_words_of_ours_stay_where_a_host_has_such_a_name() -> None:
    found = redaction()
    found(HostsNamed(("cuda", "starting", "gpu"), here=True))
    assert found(HostRunEvent("cuda", RunnerStatus("starting"))).event == RunnerStatus("starting")
    assert found(messages.EmptyCache("cuda:0")) == messages.EmptyCache("cuda:0")
    uuid = found(LogLine("runner", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 is lost")).text
    assert uuid == "GPU-00000000-0000-0000-0000-000000000001 is lost"


def test_ceilings_do_not_name_their_machine() -> None:
    found = redaction()
    ceiling = Ceiling("fp32", 1e12, "matmul", 1.0, {"host": "trainbox-a.example", "torch": "2.8"})
    without = replace(ceiling, under={"host": HOST, "torch": "2.8"})
    measured = messages.CeilingMeasured(ceiling)
    assert found(measured).ceiling == without
    assert found(HostRunEvent("gpu1", measured)).event == messages.CeilingMeasured(without)
    assert found(CeilingsRead((ceiling,))).ceilings == (without,)
    assert found(messages.KnownCeilings((ceiling,))).ceilings == (without,)
