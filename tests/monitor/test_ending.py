"""How the monitor begins and ends: no orphan, no traceback, nothing stray on the protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.monitor.conftest import Start
from tests.monitor.process import DEADLINE
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Scenario, busy_box


def test_closing_its_input_ends_it(monitor: Start) -> None:
    process = monitor(Scenario())
    process.sample()

    process.close_stdin()

    assert process.wait() == 0
    process.end()
    assert process.errors == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_without_a_traceback(monitor: Start, number: signal.Signals) -> None:
    process = monitor(Scenario())
    process.sample()

    process.child.send_signal(number)

    assert process.wait() == -number
    process.end()
    assert process.errors == ""


def test_a_reader_that_goes_away_ends_it_without_a_traceback(scripted_nvml: ScriptedNvml) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tui.monitor", "serve", "--interval", "0.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=scripted_nvml.env(Scenario()),
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()

    child.stdout.close()

    assert child.wait(DEADLINE) == 0
    assert child.stderr.read() == b""
    child.communicate()


PARENT = """
import subprocess, sys
command = [sys.executable, "-m", "tui.monitor", "serve", "--interval", "0.1"]
child = subprocess.Popen(command)
print("started", file=sys.stderr, flush=True)
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_the_death_of_its_parent_ends_it_though_its_input_stays_open() -> None:
    ours, its_input = os.pipe()
    its_output, theirs = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=ours, stdout=theirs, stderr=subprocess.DEVNULL
    )
    os.close(ours)
    os.close(theirs)
    with os.fdopen(its_output, "rb") as output, os.fdopen(its_input, "wb"):
        monitor = json.loads(output.readline())["pid"]
        assert json.loads(output.readline())["type"] == "sample"

        parent.kill()
        parent.wait(DEADLINE)

        # The pipe ends when its last writer has ended. The test's own time limit is the deadline.
        while output.readline():
            pass
    assert monitor != parent.pid


def test_stray_output_goes_to_stderr_even_from_c(monitor: Start, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(
        "import os\nprint('from Python', flush=True)\nos.write(1, b'from C\\n')\n"
        "raise ImportError('scripted')\n"
    )
    process = monitor(env={"PYTHONPATH": str(tmp_path)})
    process.sample()
    process.end()

    assert "from Python" in process.errors
    assert "from C" in process.errors


def test_what_is_no_request_is_reported_and_dropped(monitor: Start) -> None:
    process = monitor(Scenario())
    process.write(b'\nnot json\n{"type":"dance"}\n{"type":"watch","pids":"all"}\n\xff\xfe\n')
    process.watch(process.pid)

    sample = process.until(lambda s: s.watched)

    (row,) = sample.watched
    assert row.unavailable == {}
    assert row.unique is not None
    assert row.resident is not None
    assert 0 < row.unique <= row.resident
    process.end()
    assert process.errors.count("not a request") == 4


def test_a_request_may_come_in_pieces(monitor: Start) -> None:
    process = monitor(Scenario())
    process.write(b'{"type":"watch",')
    process.sample()
    process.write(b'"pids":[%d]}\n' % process.pid)

    assert process.until(lambda s: s.watched)


def test_a_process_that_is_not_there_is_watched_with_the_reason(monitor: Start) -> None:
    process = monitor(Scenario())
    process.watch(4_194_305)

    (row,) = process.until(lambda s: s.watched).watched

    assert (row.unique, row.resident) == (None, None)
    assert row.unavailable["unique"] == "no such process: it has ended"
    assert row.unavailable["resident"] == row.unavailable["unique"]


def test_once_writes_one_sample_with_a_load_and_ends(scripted_nvml: ScriptedNvml) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tui.monitor", "once"],
        capture_output=True,
        timeout=DEADLINE,
        check=False,
        env=scripted_nvml.env(busy_box(8)),
    )

    assert done.returncode == 0
    assert done.stderr == b""
    (line,) = done.stdout.splitlines()
    sample = json.loads(line)
    assert sample["type"] == "sample"
    assert sample["host"]["cpu"]["load_percent"] is not None
    assert len(sample["devices"]) == 8


def test_eight_busy_devices_change_from_sample_to_sample(monitor: Start) -> None:
    process = monitor(busy_box(8))
    first = process.until(lambda s: len(s.devices) == 8)

    process.until(
        lambda s: all(
            now.memory.used != then.memory.used
            for now, then in zip(s.devices, first.devices, strict=True)
        )
    )


@pytest.mark.parametrize("arguments", [[], ["serve", "--interval", "0"], ["dance"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tui.monitor", *arguments],
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )

    assert done.returncode == 2
    assert b"usage:" in done.stderr


def test_neither_textual_nor_torch_is_imported() -> None:
    code = (
        "import sys, tui.monitor.monitor, tui.monitor.__main__\n"
        "print(sorted({'torch', 'textual', 'rich', 'numpy', 'pynvml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
