"""When the user is called: long runs that ended, memory that ran out; and how."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import result
from tests.screens.watched import an_oom, kept_run, process_log
from tui.kit.command_line.alarm import CommandAlarm
from tui.kit.terminal.alarm import LONG_S, alarm_sequence
from tui.runs.state.alarms import RunAlarms
from tui.runs.state.events import RunQueued
from tui.watch.state.alarms import WatchAlarms, WatchedFacts, watched_facts
from workloads.protocol import messages
from workloads.protocol.results import OUT_OF_MEMORY


class Clock:
    """A time that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def queued(run_id: str, *, demo: bool = False) -> RunQueued:
    return RunQueued(messages.Run(run_id, "matmul", "cuda:0", {"size": 4096}, {}), demo)


def finished(run_id: str, reason: str = "") -> messages.Finished:
    if reason:
        return messages.Finished(result(id=run_id, status="failed", reason=reason, time=None))
    return messages.Finished(result(id=run_id))


def test_a_long_run_rings_at_its_end_and_a_short_one_does_not() -> None:
    clock, state = Clock(), make_store("one gpu")
    alarms = RunAlarms(clock)
    for seconds, expected in ((LONG_S - 1, []), (LONG_S + 55, ["the run ended after 1 min 05 s"])):
        run = f"run-{seconds}"
        state.publish(queued(run))
        assert alarms.of_runs(state.runs) == []
        clock.now += seconds
        assert alarms.of_runs(state.runs) == []
        state.publish(finished(run))
        assert alarms.of_runs(state.runs) == expected
        assert alarms.of_runs(state.runs) == []


def test_memory_that_ran_out_rings_at_once_but_not_in_a_demonstration() -> None:
    state = make_store("one gpu")
    alarms = RunAlarms(Clock())
    state.publish(queued("a"))
    state.publish(queued("b", demo=True))
    for run in ("a", "b"):
        state.publish(finished(run, f"{OUT_OF_MEMORY}CUDA out of memory. Tried to allocate"))
    assert alarms.of_runs(state.runs) == ["matmul on cuda:0 ran out of memory"]
    assert alarms.of_runs(state.runs) == []


def watched(ooms: int = 0, ended: str = "", key: str = "run") -> WatchedFacts:
    return WatchedFacts(key, "train.py", 990.0, ooms, "out of memory: 1.0 GiB asked", ended)


def test_a_watched_run_rings_for_an_oom_and_at_its_end() -> None:
    alarms = WatchAlarms(Clock())
    assert alarms.compare(watched()) == []
    assert alarms.compare(watched(1)) == ["train.py: out of memory: 1.0 GiB asked"]
    assert alarms.compare(watched(1)) == []
    assert alarms.compare(watched(1, "ended with exit code 1")) == [
        "train.py ended with exit code 1 after 10 s"
    ]


def test_an_oom_that_a_rank_handles_rings_after_one_that_ended_another() -> None:
    run, alarms = kept_run(), WatchAlarms(Clock())
    fatal = process_log(identity="box-1-9", ooms=(an_oom(at=1.0, handled=False, device=0),))
    handled = process_log(identity="box-2-9", ooms=(an_oom(at=2.0, handled=True, device=1),))
    alarms.compare(watched_facts(run, (fatal,), is_over=False))
    (line,) = alarms.compare(watched_facts(run, (fatal, handled), is_over=False))
    assert "cuda:1" in line


def test_what_happened_before_a_run_was_opened_is_no_news() -> None:
    alarms = WatchAlarms(Clock())
    assert alarms.compare(watched(3, "ended with exit code 1")) == []
    assert alarms.compare(watched(4, "ended with exit code 1", "another")) == []
    assert alarms.compare(None) == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-kitty"}, "\a\x1b]9;gpu-workbench: 3 runs; ended\x1b\\"),
        ({"TERM": "rxvt-unicode"}, "\a\x1b]777;notify;gpu-workbench;3 runs, ended\x1b\\"),
        ({"VTE_VERSION": "7600"}, "\a\x1b]777;notify;gpu-workbench;3 runs, ended\x1b\\"),
    ],
)
def test_the_terminal_gets_the_sequence_that_it_understands(
    environ: dict[str, str], expected: str
) -> None:
    assert alarm_sequence("gpu-workbench", "3 runs; ended", environ) == expected


def test_no_text_ends_the_sequence_early() -> None:
    made = alarm_sequence("a;b\a", "x\x1b\\y\a\n" * 100, {})
    body = made.removeprefix("\a").removeprefix("\x1b]9;").removesuffix("\x1b\\")
    assert body.isprintable()


class Stderr(io.StringIO):
    """Standard error that is, or is not, a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("alarm", ["true", "false"])
def test_a_command_rings_on_a_terminal_alone_and_only_if_the_setting_says_so(
    terminal: bool, alarm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_ALARM", alarm)
    stderr = Stderr(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    clock, state = Clock(), make_store("one gpu")
    rings = CommandAlarm({}, clock)
    state.publish(queued("a"))
    state.publish(finished("a", f"{OUT_OF_MEMORY}CUDA out of memory"))
    alarms = RunAlarms(clock)
    rings.ring(alarms.of_ooms(state.runs))
    rings.ring(alarms.of_ooms(state.runs))
    clock.now += LONG_S
    assert rings.end("run", 1) == 1
    wanted = terminal and alarm == "true"
    assert stderr.getvalue().count("\a") == (2 if wanted else 0)
    assert ("matmul on cuda:0 ran out of memory" in stderr.getvalue()) == wanted
    assert ("run ended after 10 s, failed" in stderr.getvalue()) == wanted


@pytest.mark.parametrize(("seconds", "code"), [(LONG_S - 1, 0), (LONG_S, 130)])
def test_a_short_command_and_one_that_the_user_ended_do_not_ring(
    seconds: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = Stderr(terminal=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    clock = Clock()
    rings = CommandAlarm({}, clock)
    clock.now += seconds
    assert rings.end("run", code) == code
    assert stderr.getvalue() == ""


def test_a_watched_run_without_a_screen_rings_for_an_oom_and_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = Stderr(terminal=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    run, clock = kept_run(), Clock()
    clock.now = run.began + LONG_S
    rings, alarms = CommandAlarm({}, clock), WatchAlarms(clock)
    rings.ring(alarms.compare(watched_facts(run, (), is_over=False)))
    logs = (process_log(ooms=(an_oom(),)),)
    rings.ring(alarms.compare(watched_facts(run, logs, is_over=False)))
    assert "out of memory" in stderr.getvalue()
    assert stderr.getvalue().count("\a") == 1
    over = replace(run, ended=clock.now, code=1)
    rings.ring(alarms.compare(watched_facts(over, logs, is_over=True)))
    assert "torchrun ended with exit code 1 after 10 s" in stderr.getvalue()
    assert stderr.getvalue().count("\a") == 2
