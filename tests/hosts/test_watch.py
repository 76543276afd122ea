"""``gpu-workbench watch --host``: allocators of processes on other hosts, as a user reads them."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.conftest import NEEDS_MACHINES, Boxes
from tests.hosts.test_old_pythons import find_python
from tests.in_process import run_here
from tests.tiers import VARIANT
from tests.watch.target import TORCH, ScriptedTarget, running, target, target_program
from tui.allocators import MODULE, serve_arguments
from tui.allocators.messages import ProcessFigures
from tui.hosts.archive import build_archive
from tui.hosts.boot import boot_command, preamble
from tui.hosts.events import HostLost
from tui.hosts.process_watch import HostWatch, HostWatchEvent
from tui.watch.cli.output import WHAT_IS_READ

__all__ = ["target", "target_program"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
HELLO = '{"type":"watch_hello","version":1,"pid":1}'


def _start(boxes: Boxes, *arguments: object) -> subprocess.Popen[str]:
    words = ("watch", "--transport", boxes.transport, *map(str, arguments))
    return subprocess.Popen(
        [sys.executable, "-m", "tui", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _watch(boxes: Boxes, *arguments: object) -> tuple[int, str, str]:
    started = _start(boxes, *arguments)
    out, errors = started.communicate(timeout=100)
    return started.returncode, out, errors


def test_figures_are_those_of_the_process_and_a_lost_host_affects_no_other(
    boxes: Boxes, target: ScriptedTarget
) -> None:
    target.make(2)
    target.do("churn", 1, 40)
    boxes.add("a")
    boxes.add("b", "exit 127")
    code, out, errors = _watch(boxes, "--host", "b,a", "--pid", target.pid, "--json")
    assert (code, errors) == (1, "")
    found = json.loads(out)
    b, a = found["hosts"]
    assert b == {
        "host": "b",
        "error": "no python3 there: name a Python with --host-python b=PATH",
    }
    (one,) = a["processes"]
    (device,) = one["devices"]
    numbers = target.numbers(1)
    assert (one["pid"], one["torch"], device["ordinal"]) == (target.pid, TORCH, 1)
    assert (device["allocated"], device["reserved"]) == (numbers[48], numbers[60])
    assert found["jobs"] == []
    assert list((boxes.folder / "a.home").iterdir()) == []


@VARIANT
@NEEDS_MACHINES
def test_rows_are_grouped_by_host_and_the_ranks_of_a_job_over_hosts(
    boxes: Boxes, target_program: Path
) -> None:
    variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
    for name in ("a", "b"):
        boxes.add(name, boot_id=f"boot of {name}")
    with running(target_program, variables) as rank:
        rank.make(1)
        rank.do("churn", 0, 40)
        # Both hosts list the processes of this machine, so the rank is on both.
        code, out, errors = _watch(boxes, "--host", "a,b", "--pid", rank.pid)
    assert (code, errors) == (0, "")
    parts = [part.splitlines() for part in out.rstrip().split("\n\n")]
    assert parts[0] == ["2 torch processes on 2 hosts"]
    assert [part[0] for part in parts[1:3]] == ["a", "b"]
    assert [part[2].split()[0] for part in parts[1:3]] == [str(rank.pid)] * 2
    job = parts[3]
    assert job[0] == "job node0:29500: 1 of 2 ranks, on a, b"
    assert "not on these hosts, or not read: rank 0" in job
    assert [line.split()[:2] for line in job[-2:]] == [["a", str(rank.pid)], ["b", str(rank.pid)]]
    assert parts[4] == [WHAT_IS_READ]


@VARIANT
def test_it_goes_on_until_the_process_has_ended(boxes: Boxes, target: ScriptedTarget) -> None:
    target.make(1)
    target.do("churn", 0, 40)
    boxes.add("a")
    started = _start(boxes, "--host", "a", "--pid", target.pid, "--jsonl", "--every", 0.05)
    assert started.stdout is not None
    wanted = target.numbers(0)[48]
    for line in started.stdout:
        found = json.loads(line)
        assert found["host"] == "a"
        if [each["allocated"] for each in found["processes"][0]["devices"]] == [wanted]:
            break
    target.process.kill()
    target.process.wait()
    out, errors = started.communicate(timeout=100)
    assert started.returncode == 0
    assert errors == f"gpu-workbench: {WHAT_IS_READ}\n"
    assert all(json.loads(line)["schema"] == 1 for line in out.splitlines())


@VARIANT
def test_the_last_line_says_how_it_ended_although_it_was_not_due(
    boxes: Boxes, target: ScriptedTarget
) -> None:
    target.make(1)
    boxes.add("a")
    started = _start(boxes, "--host", "a", "--pid", target.pid, "--jsonl", "--every", 3600)
    assert started.stdout is not None
    assert json.loads(started.stdout.readline())["processes"][0]["pid"] == target.pid
    target.process.kill()
    target.process.wait()
    out, _ = started.communicate(timeout=100)
    (last,) = map(json.loads, out.splitlines())
    assert "there is no process" in str(last["unavailable"])


@VARIANT
def test_a_pid_that_is_nobody_s_is_exit_code_1(boxes: Boxes) -> None:
    boxes.add("a")
    code, out, _ = _watch(boxes, "--host", "a", "--pid", 4_194_305)
    assert code == 1
    assert "there is no process 4194305" in out


async def _first_figures(boxes: Boxes, script: str, pid: int) -> ProcessFigures | HostLost:
    found: asyncio.Future[ProcessFigures | HostLost] = asyncio.get_running_loop().create_future()

    def publish(event: HostWatchEvent) -> None:
        if isinstance(event, (ProcessFigures, HostLost)) and not found.done():
            found.set_result(event)

    watch = HostWatch(boxes.add("a", script), publish, 0.1, pids=(pid,))
    task = asyncio.create_task(watch.watch())
    try:
        return await asyncio.wait_for(found, 60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await watch.close()


async def test_the_interval_can_be_changed_while_it_runs(
    boxes: Boxes, target: ScriptedTarget
) -> None:
    target.make(1)
    read: asyncio.Queue[HostWatchEvent] = asyncio.Queue()
    watch = HostWatch(boxes.add("a"), read.put_nowait, 3600.0, pids=(target.pid,))
    task = asyncio.create_task(watch.watch())

    async def next_figures() -> ProcessFigures:
        while True:
            event = await asyncio.wait_for(read.get(), 60)
            if isinstance(event, ProcessFigures):
                return event

    try:
        first = await next_figures()
        watch.set_interval(0.1)
        # With the first interval, this would take an hour.
        assert (await next_figures()).at > first.at
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await watch.close()


@pytest.mark.parametrize(
    "minor", [8, *(pytest.param(minor, marks=VARIANT) for minor in (9, 10, 13))]
)
async def test_the_watch_runs_on_a_python_without_packages(
    minor: int, boxes: Boxes, target: ScriptedTarget
) -> None:
    python = find_python(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} on this machine")
    target.make(1)
    target.do("churn", 0, 40)
    script = f'shift; exec {shlex.quote(python)} -S "$@"'
    figures = await _first_figures(boxes, script, target.pid)
    assert isinstance(figures, ProcessFigures), figures
    assert [each.allocated for each in figures.devices] == [target.numbers(0)[48]]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('{"type":"watch_hello","version":99,"pid":1}', "speaks version 99"),
        (f"{HELLO}\nrubbish", "it sent an unreadable line"),
        (
            f'{HELLO}\n{{"type":"process_figures","at":1,"devices":[],"unavailable":{{"x":"y"}}}}',
            "it sent figures of unknown devices",
        ),
    ],
)
async def test_a_host_that_sends_other_things_is_lost(boxes: Boxes, said: str, why: str) -> None:
    lines = "".join(f"echo {shlex.quote(line)}; " for line in said.split("\n"))
    event = await _first_figures(boxes, f"read line; {lines} sleep 60", 1)
    assert isinstance(event, HostLost)
    assert why in event.reason


def test_the_child_ends_when_it_receives_nothing() -> None:
    """A link that was cut leaves its pipe open."""
    arguments = serve_arguments(0.1, keep_alive_s=1.0)
    child = subprocess.Popen(
        boot_command(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(preamble(build_archive(), MODULE, arguments))
        child.stdin.flush()
        assert b'"watch_hello"' in child.stdout.readline()
        child.stdout.read()
        assert child.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host=-x",), "-x begins with a dash"),
        (("--host", "a", "--stacks"), "--stacks: for processes of this machine"),
        (("--host", "a", "--inject", "--pid", "1"), "--inject: for processes of this machine"),
        (("--host", "a", "--", "true"), "a command or a run: for processes of this machine"),
        (("--host", "a", "--env"), "--env, --markdown or --record: for processes of this"),
        (("--host", "a", "--every", "1"), "--every: give --pid PID"),
        ((), "need --host or --slurm"),
    ],
)
def test_options_that_cannot_be_carried_out_are_refused(
    boxes: Boxes, arguments: tuple[str, ...], said: str
) -> None:
    done = run_here("watch", "--transport", boxes.transport, *arguments)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1
