"""A host's monitor: what arrives, what is said when nothing does, and what is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.hosts.conftest import BARE_PYTHON, Boxes
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.tiers import VARIANT, with_variants
from tests.waiting import assert_gone
from tui.core.child.process import LINE_LIMIT
from tui.core.child.supervisor import back_off
from tui.core.text.glyphs import clean
from tui.core.text.redact import with_texts
from tui.hosts import supervisor as supervisor_module
from tui.hosts.address import HostAddress
from tui.hosts.archive import build_archive
from tui.hosts.boot import FIRST_LINE, boot_command, preamble
from tui.hosts.children import without_controls
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.monitor import HostMonitor
from tui.hosts.supervisor import MOST_PER_S
from tui.hosts.watching import first_samples, watch_hosts
from tui.monitor.messages import (
    VERSION,
    Cpu,
    Driver,
    Host,
    HostMemory,
    MonitorHello,
    Pace,
    Sample,
    WatchHost,
)
from workloads.protocol import wire
from workloads.protocol.change_reader import ChangeReader
from workloads.protocol.change_writer import ChangeWriter
from workloads.protocol.keep_alive import KeepAlive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")


async def _first(host: HostAddress) -> HostEvent:
    (event,) = await first_samples((host,), within_s=60)
    return event


async def _why_lost(host: HostAddress) -> str:
    event = await _first(host)
    assert isinstance(event, HostLost), event
    return event.reason


def test_the_first_words_are_safe_in_any_shell() -> None:
    assert len(FIRST_LINE) < 400
    assert not set("'\n!\\$`%") & set(FIRST_LINE)


def test_the_same_modules_make_the_same_archive_of_bounded_size() -> None:
    archive = build_archive()
    build_archive.cache_clear()
    assert build_archive() == archive
    assert len(archive) < 400_000


async def test_a_bare_python_reads_eight_gpus_and_writes_nothing(
    boxes: Boxes, scripted_nvml: ScriptedNvml
) -> None:
    variables = scripted_nvml.env(busy_box(8))
    names = ("LD_LIBRARY_PATH", "SCRIPTED_NVML", "SCRIPTED_NVML_LOG")
    host = boxes.add("gpu1", variables={name: variables[name] for name in names})
    event = await _first(host)
    assert isinstance(event, HostSample), event
    assert len(event.sample.devices) == 8
    assert event.sample.devices[0].memory.used
    assert event.sample.host.memory.total == psutil.virtual_memory().total
    assert list((boxes.folder / "gpu1.home").iterdir()) == []


async def test_a_login_banner_is_no_message(boxes: Boxes) -> None:
    greeting = 'echo "Welcome to gpu1"; echo \'{"type": "sample"}\'; printf "\\033[2J\\n"\n'
    assert isinstance(await _first(boxes.add("gpu1", greeting + BARE_PYTHON)), HostSample)


async def test_a_banner_of_a_megabyte_is_read_past(boxes: Boxes) -> None:
    greeting = "head -c 1000000 /dev/zero | tr '\\0' x; echo\n"
    assert isinstance(await _first(boxes.add("gpu1", greeting + BARE_PYTHON)), HostSample)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 127", "no python3 there: name a Python with --host-python gpu1=PATH"),
        (
            "exit 3",
            "the connection ended: exit status 3: run `reach gpu1` once to see what it does",
        ),
        (
            "exit 0",
            "the connection ended: exit status 0: run `reach gpu1` once to see what it does",
        ),
        ("kill -9 $$", "the connection ended: "),
        ("echo You shall not pass; exit 3", "it said 'You shall not pass'"),
        ("echo 'Host key verification failed.' >&2; exit 255", "unknown: run `reach gpu1` once"),
        ("echo 'me@gpu1: Permission denied (publickey).' >&2; exit 255", "run `reach gpu1` once"),
        (
            "echo 'ssh: connect to host gpu1 port 22: Connection refused' >&2; exit 255",
            "ssh: connect to host gpu1 port 22: Connection refused",
        ),
        ("printf 'bad \\033[31mred\\n' >&2; exit 1", "bad ?[31mred"),
        ("echo 'Python 3.6 is too old' >&2; exit 66", "Python 3.6 is too old: name a Python"),
        (
            'read line; echo \'{"type":"monitor_hello","version":99,"pid":1}\'; sleep 60',
            "speaks version 99",
        ),
        (
            'echo \'{"type":"monitor_hello","version":1,"pid":1}\'; echo rubbish; sleep 60',
            "an unreadable line",
        ),
        (
            'echo \'{"type":"monitor_hello","version":1,"pid":1}\';'
            ' echo \'{"type":"run","id":"1","workload":"burn"}\'; sleep 60',
            "an unreadable line",
        ),
        (
            'echo \'{"type":"monitor_hello","version":1,"pid":1}\';'
            ' echo \'{"type":"change","of":"sample","changed":{"at":[1.0]}}\'; sleep 60',
            "an unreadable line: a change of 'sample', of which there was none",
        ),
        (
            'echo \'{"type":"monitor_hello","version":1,"pid":1}\'; printf half; exit 0',
            "an unreadable line",
        ),
        (
            'echo \'{"type":"monitor_hello","version":1,"pid":1}\'; head -c 9000000 /dev/zero',
            "an unreadable line",
        ),
        (
            'echo \'{"type":"monitor_hello","version":1,"pid":1}\'; exec cat /dev/zero',
            "an unreadable line",
        ),
    ],
)
async def test_a_host_that_fails_says_why_in_one_line(
    boxes: Boxes, script: str, reason: str
) -> None:
    said = await _why_lost(boxes.add("gpu1", script))
    assert reason in said
    assert said.isprintable()


async def test_a_host_that_sends_samples_without_end_is_given_up(boxes: Boxes) -> None:
    cpu = Cpu("AMD EPYC", 16, 16, 10.0, None)
    host = Host("gpu1", cpu, HostMemory(2**30, 2**20, 2**29))
    sample = Sample(1.0, 0.1, host, Driver(None, None, None), ())
    for name, message in (("hello", MonitorHello(VERSION, 1)), ("sample", sample)):
        (boxes.folder / name).write_bytes(wire.encode(message))
    folder = shlex.quote(str(boxes.folder))
    address = boxes.add("gpu1", f'cat {folder}/hello; exec yes "$(cat {folder}/sample)"')
    reasons: list[str] = []

    def apply(event: HostEvent) -> bool:
        if isinstance(event, HostLost):
            reasons.append(event.reason)
        return bool(reasons)

    assert await watch_hosts((address,), apply, within_s=60)
    assert reasons == [f"it sent more than {MOST_PER_S} messages within a second"]


def test_a_line_of_4_gb_takes_no_memory_for_it(boxes: Boxes) -> None:
    hello = 'echo \'{"type":"monitor_hello","version":1,"pid":1}\'; '
    boxes.add("gpu1", f"read line; {hello} exec head -c 4294967296 /dev/zero")
    boxes.add("gpu2", f"read line; {hello} echo rubbish; sleep 60")
    peaks = {}
    for name in ("gpu1", "gpu2"):
        words = ["devices", "--host", name, "--transport", boxes.transport, "--no-here", "--json"]
        command = [sys.executable, "-m", "tui", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            (host,) = json.loads(process.stdout.read())["hosts"]
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert "an unreadable line" in host["error"]
        peaks[name] = 1024 * used.ru_maxrss
    assert peaks["gpu1"] < peaks["gpu2"] + 8 * LINE_LIMIT


async def test_a_host_without_nvml_shows_its_cpu_and_says_why(boxes: Boxes) -> None:
    # Where there is a driver, this one hides it.
    broken = boxes.folder / "libnvidia-ml.so.1"
    broken.write_bytes(b"no library")
    host = boxes.add("gpu1", variables={"LD_LIBRARY_PATH": str(broken.parent)})
    event = await _first(host)
    assert isinstance(event, HostSample), event
    assert event.sample.devices == ()
    assert event.sample.driver.error
    assert event.sample.host.memory.total == psutil.virtual_memory().total


async def test_a_program_that_is_not_there_is_named() -> None:
    said = await _why_lost(HostAddress("gpu1", ("/nowhere/srun",)))
    assert said == "/nowhere/srun cannot be started: No such file or directory"


async def test_one_host_that_fails_leaves_the_others_alone(boxes: Boxes) -> None:
    good, bad = boxes.add("good"), boxes.add("bad", "exit 127")
    events = await first_samples((bad, good), within_s=60)
    assert [event.host for event in events] == ["bad", "good"]
    assert isinstance(events[0], HostLost)
    assert isinstance(events[1], HostSample)


@VARIANT
async def test_a_silent_host_is_given_up_and_connected_again(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "SILENT_AFTER_S", 0.3)
    monkeypatch.setattr(supervisor_module, "EVERY_S", 0.05)
    hello = '{"type":"monitor_hello","version":1,"pid":1}'
    # It is silent until it was given up, and answers after that.
    mark = boxes.folder / "mark"
    script = f"if [ ! -e {mark} ]; then echo '{hello}'; sleep 600; fi\n{BARE_PYTHON}"
    host = boxes.add("gpu1", script)
    events: list[HostEvent] = []

    def apply(event: HostEvent) -> bool:
        events.append(event)
        mark.touch()
        monkeypatch.setattr(supervisor_module, "SILENT_AFTER_S", 60.0)
        return isinstance(event, HostSample)

    assert await watch_hosts((host,), apply, within_s=60)
    assert isinstance(events[0], HostLost)
    assert "not answering" in events[0].reason
    assert events[0].retry_s == 1.0


def test_a_host_is_tried_again_at_ever_longer_intervals() -> None:
    after = [back_off(failures, HostMonitor.waits_s) for failures in range(8)]
    # After a connection that was of use, then after one failure, two and so on.
    assert after == [1.0, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0, 30.0]


async def test_an_endless_banner_is_given_up(boxes: Boxes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "CONNECT_WITHIN_S", 0.5)
    monkeypatch.setattr(supervisor_module, "EVERY_S", 0.1)
    reason = await _why_lost(boxes.add("gpu1", "exec cat /dev/zero"))
    assert reason == "no answer within 0.5 s: run `reach gpu1` once to see where it waits"


async def test_a_keep_alive_gives_the_round_trip_time(boxes: Boxes) -> None:
    def apply(event: HostEvent) -> bool:
        return isinstance(event, HostSample) and event.round_trip_s is not None

    host = boxes.add("gpu1")
    assert await watch_hosts((host,), apply, interval=0.1, within_s=60)


async def test_some_keep_alives_ask_for_no_answer(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples show that the host is there, and an answer takes processor time."""
    monkeypatch.setattr(supervisor_module, "EVERY_S", 0.05)
    asked: set[bool] = set()
    has_asked_for_both = asyncio.Event()

    class Told(HostMonitor):
        def send(self, message: object) -> bool:
            if isinstance(message, KeepAlive):
                asked.add(message.answer)
            if len(asked) == 2:
                has_asked_for_both.set()
            return super().send(message)

    monitor = Told(boxes.add("gpu1"), lambda _event: None)
    task = asyncio.create_task(monitor.watch())
    try:
        await asyncio.wait_for(has_asked_for_both.wait(), 60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await monitor.close()


async def test_nothing_is_left_once_the_watching_ends(boxes: Boxes) -> None:
    seen: set[psutil.Process] = set()
    # Other tests of this process may have children of their own.
    before = set(psutil.Process().children(recursive=True))

    def apply(_event: HostEvent) -> bool:
        seen.update(set(psutil.Process().children(recursive=True)) - before)
        return True

    await watch_hosts((boxes.add("gpu1"),), apply, within_s=60)
    assert seen
    await asyncio.to_thread(assert_gone, seen)


@pytest.mark.parametrize("requests", with_variants([0], [3]))
@VARIANT
def test_a_child_ends_itself_when_its_keep_alive_is_missed(requests: int) -> None:
    """The pipe stays open, as that of a link that was cut."""
    command = boot_command(sys.executable)
    arguments = ("serve", "--interval", "1", "--keep-alive", "2")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(preamble(build_archive(), "tui.monitor", arguments))
        child.stdin.flush()
        assert b"monitor_hello" in child.stdout.readline()
        began = time.monotonic()
        for number in range(requests):
            # Of two keep-alives one asks for an answer.
            for answer in (b"true", b"false"):
                child.stdin.write(
                    b'{"type":"keep_alive","number":%d,"answer":%b}\n' % (number, answer)
                )
                child.stdin.flush()
        output = child.stdout.read()
        assert child.wait() == 0
        assert output.count(b'"alive"') == requests
        assert time.monotonic() > began


async def test_escapes_in_what_a_host_says_are_removed(boxes: Boxes) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07"
    cpu = Cpu(hostile, 8, 8, 1.0, None, {"frequency_mhz": hostile})
    host = Host(hostile, cpu, HostMemory(2**30, 2**20, 2**29))
    sample = Sample(1.0, 0.1, host, Driver(hostile, None, hostile), (), problems=(hostile,))
    lines = wire.encode(MonitorHello(VERSION, 1)) + wire.encode(sample)
    (boxes.folder / "lines").write_bytes(lines)
    script = f"cat {shlex.quote(str(boxes.folder / 'lines'))}; sleep 600"
    event = await _first(boxes.add("gpu1", script))
    assert isinstance(event, HostSample)
    texts = wire.encode(event.sample).decode()
    assert "owned" in texts
    assert "u001b" not in texts
    assert "u0007" not in texts


@given(text=st.text())
@example(text="\x7f")
@example(text="\x1b[2J")
@example(text="\u202e")
def test_no_text_of_a_host_has_a_character_that_controls_the_terminal(text: str) -> None:
    cpu = Cpu(text, 8, 8, 1.0, None, {"frequency_mhz": text})
    sample = Sample(1.0, 0.1, Host(text, cpu, HostMemory(2, 1, 1)), Driver(None, None, text), ())
    plain = json.dumps({"type": "sample", **wire.to_plain(sample)}, ensure_ascii=False)
    for line in (wire.encode(sample), plain.encode("utf-8", "surrogatepass")):
        with contextlib.suppress(wire.WireError):
            found = without_controls(wire.decode(line, (Sample,)), line)
            assert found == with_texts(sample, clean, keys=False)


def test_a_text_that_changes_cannot_control_the_terminal_either() -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07"
    cpu = Cpu("EPYC", 8, 8, 1.0, None, {})
    before = Sample(1.0, 0.1, Host("gpu1", cpu, HostMemory(2, 1, 1)), Driver(None, None, None), ())
    after = replace(before, host=replace(before.host, name=hostile), problems=(hostile,))
    writer, reader = ChangeWriter((Sample,)), ChangeReader((Sample,), without_controls)
    assert reader.decode(writer.encode(before)) == before
    for sample in (after, replace(after, at=2.0)):
        assert reader.decode(writer.encode(sample)) == with_texts(sample, clean, keys=False)


def test_a_host_is_asked_for_its_processes_and_its_pace_once_it_has_greeted() -> None:
    sent: list[object] = []

    class Told(HostMonitor):
        def send(self, message: object) -> bool:
            sent.append(message)
            return True

    monitor = Told(HostAddress("gpu1", ("true",)), lambda _event: None)
    monitor.list_processes(True)
    monitor.set_interval(2.0)
    assert sent == []
    monitor.apply_event(MonitorHello(VERSION, 1))
    assert WatchHost(True) in sent
    monitor.set_interval(5.0)
    monitor.list_processes(False)
    assert sent[-2:] == [Pace(5.0), WatchHost(False)]
