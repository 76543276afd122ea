"""The logs of agents on another machine: what is sent of them, and what is said of their OOMs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tui.allocators.agents import LONGEST_LINE, AgentLogs, AgentState
from tui.allocators.messages import AgentLogPart
from tui.core.events import Topic
from tui.hosts.events import HostsNamed, HostTorch
from tui.recordings.recorder import Redaction
from tui.runs.state.state import WorkbenchState
from tui.watch.cli.host_output import HostReading, encode_host, hosts_text, ooms_text
from tui.watch.state.host_ooms import MOST_LOGS, HostOom, HostOomLogs, explain_host_ooms
from workloads.protocol import wire

GIB = 2**30
NAME = "gpu1-4711-100"
BEGIN: dict[str, Any] = {
    "event": "begin",
    "at": 1.0,
    "identity": NAME,
    "pid": 4711,
    "host": "gpu1",
    "rank": "3",
    "torch": "2.13.0",
}
OOM: dict[str, Any] = {
    "event": "oom",
    "at": 2.0,
    "oom": 1,
    "happened": 2.0,
    "step": 7,
    "device": 0,
    "asked": 4 * GIB,
    "free": GIB,
    "limit": 80 * GIB,
    "allocated": 78 * GIB,
    "reserved": 78 * GIB,
    "requested": 78 * GIB,
    "thread": "main",
    "where": "train.py:9",
}
NO_SNAPSHOT: dict[str, Any] = {"event": "no snapshot", "at": 2.1, "oom": 1, "text": "full"}
SNAPSHOT: dict[str, Any] = {"event": "snapshot", "at": 2.1, "oom": 1, "name": f"{NAME}-1.pickle"}
END: dict[str, Any] = {
    "event": "end",
    "at": 3.0,
    "steps": 7,
    "ooms": 1,
    "type": "OutOfMemoryError",
    "text": "CUDA out of memory. Tried to allocate 4.00 GiB.",
    "out_of_memory": True,
}


def line(event: dict[str, Any]) -> str:
    return json.dumps(event)


def part(*events: dict[str, Any], number: int = 1, identity: str = NAME) -> AgentLogPart:
    return AgentLogPart(4711, identity, "/home/ada/runs/1", number, tuple(map(line, events)))


def explain(*parts: AgentLogPart) -> tuple[HostOom, ...]:
    logs = HostOomLogs()
    for each in parts:
        logs.apply(each)
    return logs.explain(None, ())


# ---- on the host ----


def write(folder: Path, *events: dict[str, Any], name: str = NAME) -> None:
    with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(f"{line(event)}\n" for event in events)


def report(folder: Path, ooms: int = 0) -> dict[int, AgentState]:
    return {4711: AgentState(NAME, 4711, str(folder), 7, ooms, 0, False, 0)}


def test_a_log_is_sent_once_it_has_an_oom_and_then_what_it_gains(tmp_path: Path) -> None:
    logs = AgentLogs()
    write(tmp_path, BEGIN)
    assert list(logs.read(report(tmp_path), [4711])) == []
    write(tmp_path, OOM)
    (first,) = logs.read(report(tmp_path, ooms=1), [4711])
    assert first == AgentLogPart(4711, NAME, str(tmp_path), 1, (line(BEGIN), line(OOM)))
    assert list(logs.read(report(tmp_path, ooms=1), [4711])) == []
    with (tmp_path / f"{NAME}.jsonl").open("a", encoding="utf-8") as file:
        file.write(line(END))
    assert list(logs.read(report(tmp_path, ooms=1), [4711])) == []  # a line is being written
    write(tmp_path, {})
    (second,) = logs.read({}, [])
    assert second.number == 2
    assert second.lines[0].startswith(line(END))


def test_the_end_of_a_process_that_no_report_has_said_of_is_sent(tmp_path: Path) -> None:
    logs = AgentLogs()
    write(tmp_path, BEGIN)
    assert list(logs.read(report(tmp_path), [4711])) == []
    write(tmp_path, OOM, END)
    (found,) = logs.read({}, [])
    assert found.lines == tuple(map(line, (BEGIN, OOM, END)))


def test_nothing_is_sent_of_a_process_without_an_oom(tmp_path: Path) -> None:
    logs = AgentLogs()
    write(tmp_path, BEGIN, {**END, "ooms": 0, "out_of_memory": False})
    assert list(logs.read(report(tmp_path), [4711])) == []
    for _ in range(9):
        assert list(logs.read({}, [])) == []
    write(tmp_path, OOM)
    assert list(logs.read({}, [])) == []  # it was followed for long enough


def test_a_link_and_a_line_that_is_too_long_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(f"{line(OOM)}\n", encoding="utf-8")
    (tmp_path / f"{NAME}.jsonl").symlink_to(tmp_path / "other")
    assert list(AgentLogs().read(report(tmp_path, ooms=1), [4711])) == []
    (tmp_path / f"{NAME}.jsonl").unlink()
    write(tmp_path, {**BEGIN, "torch": "x" * LONGEST_LINE}, OOM)
    (found,) = AgentLogs().read(report(tmp_path, ooms=1), [4711])
    assert found.lines == (line(OOM),)


def test_a_large_log_comes_in_several_messages(tmp_path: Path) -> None:
    long = {"event": "inventory", "oom": 1, "inventory": '"' * (LONGEST_LINE // 3)}
    write(tmp_path, BEGIN, OOM, *[long] * 5)
    found = list(AgentLogs().read(report(tmp_path, ooms=1), [4711]))
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert sum(len(each.lines) for each in found) == 7
    # The front end reads lines of 4 MiB at most.
    assert max(len(wire.encode(each)) for each in found) < 4 << 20


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_the_place_of_a_log_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"{NAME}.jsonl")
    assert list(AgentLogs().read(report(tmp_path, ooms=1), [4711])) == []


# ---- here ----


def test_the_newest_oom_of_each_process_is_explained() -> None:
    later = {**OOM, "oom": 2, "happened": 5.0, "where": "train.py:12"}
    other = {**BEGIN, "identity": "gpu1-9-9", "pid": 9, "rank": None}
    found = explain(
        part(BEGIN, OOM, later, {**NO_SNAPSHOT, "oom": 2}),
        part(other, OOM, NO_SNAPSHOT, identity="gpu1-9-9"),
    )
    assert [(each.log.pid, each.oom.number) for each in found] == [(4711, 2), (9, 1)]
    assert found[0].line.startswith("process 4711 (rank 3): OOM at step 7, train.py:12")
    assert found[1].line.startswith("process 9: OOM at step 7, train.py:9")


def test_what_follows_completes_an_oom_and_a_first_part_starts_anew() -> None:
    (found,) = explain(part(BEGIN, OOM), part(SNAPSHOT, END, number=2))
    assert found.oom.handled is False
    # Its file is on that machine, whatever is under that name here.
    assert found.oom.snapshot is None
    assert f"it is on gpu1: /home/ada/runs/1/{NAME}-1.pickle" in found.oom.why_no_snapshot
    (found,) = explain(part(BEGIN, OOM, END), part(BEGIN, OOM, NO_SNAPSHOT))
    assert found.oom.handled is None
    (found,) = explain(part(BEGIN, OOM, {"event": "handled", "at": 2.5, "oom": 1, "step": 8}))
    assert ", which it handled: OOM" in found.line


def test_what_a_host_sends_is_bounded_and_cannot_control_the_terminal() -> None:
    hostile = {**OOM, "where": "\x1b[2Jtrain.py:9"}
    parts = [
        part({**BEGIN, "identity": f"gpu1-{pid}-1", "pid": pid}, hostile, identity=f"gpu1-{pid}-1")
        for pid in range(1, MOST_LOGS + 9)
    ]
    found = explain(*parts)
    assert len(found) == MOST_LOGS
    assert all(each.line.isprintable() for each in found)
    assert explain(AgentLogPart(1, NAME, "/", 1, ("rubbish", "[", "{}", line(OOM)))) == ()


def test_the_command_says_it_first_and_prints_the_whole_explanation_at_the_end() -> None:
    reading = HostReading("gpu1", ooms=explain(part(BEGIN, OOM, END)))
    lines = hosts_text([reading])
    assert lines[0] == "no torch process on 1 host; 1 ran out of memory"
    assert lines[3].startswith("process 4711 (rank 3): OOM at step 7, train.py:9")
    text = "\n".join(ooms_text([reading]))
    assert "gpu1: process 4711 (rank 3): OOM at step 7" in text
    assert "4.00 GiB requested on cuda:0" in text or "4.0 GiB requested on cuda:0" in text
    (oom,) = encode_host(reading)["ooms"]
    assert (oom["pid"], oom["rank"], oom["asked"], oom["snapshot"]) == (4711, "3", 4 * GIB, None)
    assert oom["explanation"]["line"].startswith("OOM at step 7")
    assert oom["unavailable"]["snapshot"]


def test_the_notes_of_a_host_are_replaced_and_an_unknown_host_has_none() -> None:
    state = WorkbenchState()
    state.publish(HostsNamed(("gpu1",), here=False))
    explain_host_ooms(state.bus, state.machine.hosts)
    (host,) = state.machine.hosts.all
    state.publish(HostTorch("gpu2", log=part(BEGIN, OOM)))
    assert not host.oom_notes
    assert Topic.ALLOCATORS in state.publish(HostTorch("gpu1", log=part(BEGIN, OOM)))
    (note,) = host.oom_notes
    assert note.startswith("process 4711 (rank 3): OOM at step 7: 4.0 GiB requested on cuda:0")
    # The line of the inventory follows that of the OOM.
    assert note.endswith("its agent is examining the process")
    state.publish(HostTorch("gpu1", log=part(END, number=2)))
    assert len(host.oom_notes) == 1
    assert host.oom_notes[0].startswith("process 4711 (rank 3): OOM at step 7, train.py:9")


def test_a_redacted_recording_has_no_log() -> None:
    assert Redaction()(HostTorch("gpu1", log=part(BEGIN, OOM))) == HostTorch("host1")
