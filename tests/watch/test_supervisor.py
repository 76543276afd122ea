"""The command of a run and what stands between it and its disk, its reader and its starter."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests import waiting
from tests.tiers import VARIANT, with_variants
from tui.watch.runs import runs, start
from tui.watch.runs.runs import StartedRun

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "state"


def command(code: str, *words: str) -> list[str]:
    watch = (sys.executable, "-m", "tui", "watch", "--no-screen", *words)
    return [*watch, "--", sys.executable, "-u", "-c", code]


@contextmanager
def watched(code: str) -> Iterator[tuple[subprocess.Popen[bytes], StartedRun]]:
    """Start a program under watch and wait for its first line; it ends with the test."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(code), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        (run,) = runs.stored_runs()
        yield process, run
    finally:
        for run in runs.stored_runs():
            if run.first_process_is_running and run.pid is not None:
                os.killpg(run.pid, signal.SIGKILL)
        process.kill()
        process.communicate()


def the_run() -> StartedRun:
    (run,) = runs.stored_runs()
    return run


def ended() -> StartedRun:
    return waiting.until(lambda: the_run() if the_run().ended is not None else None)  # type: ignore[no-any-return]


def test_a_full_disk_costs_the_program_nothing() -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    code = "for n in range(20000): print('line', n)\nraise SystemExit(7)"
    done = subprocess.run(
        command(code), capture_output=True, check=False, timeout=100, preexec_fn=little_room
    )
    assert done.returncode == 7
    whole = b"".join(b"line %d\n" % number for number in range(20_000))
    assert done.stdout.startswith(whole)
    assert done.stderr.decode().splitlines() == [
        "gpu-workbench: its output cannot be stored: File too large; the run continues without it"
    ]
    assert the_run().log.read_bytes() == whole[: 64 << 10]


def test_in_place_it_starts_on_a_full_disk() -> None:
    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    words = [
        sys.executable,
        "-m",
        "tui",
        "watch",
        "--here",
        "--",
        "/bin/sh",
        "-c",
        "echo it; exit 7",
    ]
    done = subprocess.run(
        words, capture_output=True, check=False, timeout=100, preexec_fn=no_room, text=True
    )
    assert (done.returncode, done.stdout) == (7, "it\n")
    (line,) = done.stderr.splitlines()
    assert "File too large" in line
    assert line.endswith("; the command runs without the watch")
    assert runs.stored_runs() == []


def test_the_streams_are_apart_and_piped_input_is_handed_on() -> None:
    code = "import sys; print(sys.stdin.read()[::-1]); print('err', file=sys.stderr)"
    done = subprocess.run(command(code), input=b"abc", capture_output=True, check=True, timeout=100)
    assert done.stdout.startswith(b"cba\n\n")
    assert done.stderr == b"err\n"
    assert set(the_run().log.read_bytes().splitlines()) == {b"cba", b"err"}


HANDED_ON = ("SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH", "SIGINT", "SIGTERM")


def test_signals_reach_the_command() -> None:
    code = (
        "import signal\n"
        f"wanted = [getattr(signal, name) for name in {HANDED_ON}]\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, wanted)\n"
        "print('ready')\n"
        "for _ in wanted: print(signal.Signals(signal.sigwait(wanted)).name)\n"
        "raise SystemExit(3)\n"
    )
    with watched(code) as (process, _):
        assert process.stdout is not None
        for name in HANDED_ON:
            process.send_signal(getattr(signal, name))
            assert process.stdout.readline() == f"{name}\n".encode()
        process.communicate()
        assert process.returncode == 3


@pytest.mark.parametrize("number", with_variants([signal.SIGHUP], [signal.SIGQUIT]))
def test_the_run_outlives_a_hangup_and_a_line_says_how_to_come_back(number: signal.Signals) -> None:
    with watched("import signal; print('ready'); signal.pause()") as (process, run):
        process.send_signal(number)
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 128 + number
        assert f"is still running as process {run.pid}" in errors.decode()
        assert f"gpu-workbench watch {run.folder.name} shows it again" in errors.decode()
        assert the_run().is_running


def test_the_end_is_seen_when_the_one_that_started_it_is_gone() -> None:
    code = (
        "import os, signal, time\nprint('ready')\nparent = int(os.environ['STARTER'])\n"
        "while os.path.exists(f'/proc/{parent}'): time.sleep(0.01)\n"
        "print('x' * 300_000)\nraise SystemExit(5)\n"
    )
    shell = ["/bin/sh", "-c", 'STARTER=$$ exec "$@"', "sh", *command(code)]
    process = subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    process.communicate()
    run = ended()
    assert (run.code, run.signal, run.is_running) == (5, None, False)
    assert run.log.read_bytes() == b"ready\n" + b"x" * 300_000 + b"\n"


ON_SIGNAL = (
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\nprint('ready')\n"
    "signal.sigwait([signal.SIGUSR1])\nprint('still here')\nraise SystemExit(9)\n"
)
"""It waits for a signal that may arrive before it waits."""


@VARIANT
def test_another_one_reads_on_when_the_reader_of_its_output_is_killed() -> None:
    with watched(ON_SIGNAL) as (process, run):
        assert run.supervisor is not None
        supervisor = psutil.Process(run.supervisor)

        def drain() -> psutil.Process | None:
            found = [each for each in supervisor.children() if each.pid != run.pid]
            return found[0] if found else None

        first = waiting.until(drain)
        first.kill()
        waiting.until(lambda: drain() not in (None, first))
        process.send_signal(signal.SIGUSR1)
        out, _ = process.communicate(timeout=100)
    assert out.startswith(b"still here\n")
    assert process.returncode == 9
    assert the_run().log.read_bytes() == b"ready\nstill here\n"


def test_a_supervisor_that_is_killed_costs_the_exit_code_and_no_output() -> None:
    with watched(ON_SIGNAL) as (process, run):
        assert run.supervisor is not None
        os.kill(run.supervisor, signal.SIGKILL)
        waiting.until(lambda: not psutil.pid_exists(run.supervisor or 0) or _zombie(run.supervisor))
        process.send_signal(signal.SIGUSR1)
        out, errors = process.communicate(timeout=100)
    assert out.startswith(b"still here\n")
    assert b"its exit code is not known: the process that waits for it was killed" in errors
    assert b"ended with an unknown exit code" in out
    assert process.returncode == 1
    assert run.log.read_bytes() == b"ready\nstill here\n"


def _zombie(pid: int | None) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_what_outlives_the_command_belongs_to_the_run() -> None:
    daemon = "import time; time.sleep(0.3)"
    code = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {daemon!r}], start_new_session=True)\n"
        "raise SystemExit(4)\n"
    )
    run, process = start.begin([sys.executable, "-c", code], None)
    waiting.until(lambda: process.has_ended)
    # Under load it may have ended by now; what is written down agrees with it either way.
    found = waiting.until(lambda: the_run() if the_run().code is not None else None)
    assert found.code == 4
    assert found.is_running or the_run().ended is not None
    process.wait()
    found = ended()
    assert found.ended is not None
    assert found.ended - run.began >= 0.3
    assert not the_run().is_running


@VARIANT
def test_a_reader_that_waits_does_not_hold_the_command_up() -> None:
    code = "for n in range(40): print('y' * 99_999)\nraise SystemExit(2)"
    process = subprocess.Popen(command(code), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert ended_code() == 2  # nothing was read yet
    out, _ = process.communicate(timeout=100)
    assert out.startswith((b"y" * 99_999 + b"\n") * 40)
    assert process.returncode == 2


def ended_code() -> int | None:
    def found() -> StartedRun | None:
        kept = runs.stored_runs()
        return kept[0] if kept and kept[0].code is not None else None

    return waiting.until(found).code  # type: ignore[no-any-return]


@VARIANT
def test_a_reader_that_goes_away_costs_the_command_nothing() -> None:
    code = "for n in range(40): print('y' * 99_999)\nraise SystemExit(2)"
    process = subprocess.Popen(
        command(code), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    process.wait(100)
    run = ended()
    assert (run.code, run.signal) == (2, None)
    assert run.log.read_bytes() == (b"y" * 99_999 + b"\n") * 40


@pytest.mark.slow
def test_much_output_is_passed_on_in_little_memory() -> None:
    peaks = []
    for size in (1, 400_000_000):
        words = [*command("")[:-4], "head", "-c", str(size), "/dev/zero"]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert process.stdout is not None
        reader = threading.Thread(target=_read_all, args=(process.stdout.fileno(),))
        reader.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        reader.join()
        process.stdout.close()
        assert process.returncode == 0
        peaks.append(usage.ru_maxrss << 10)
    assert peaks[1] - peaks[0] < 20 << 20


def _read_all(file: int) -> None:
    while os.read(file, 1 << 20):
        pass
