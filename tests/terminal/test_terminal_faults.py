"""Terminals that vanish, stall, cannot do much or change size; errors of the program's own."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.terminal.faults import assert_restored, each_signal, stall, without_torch
from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from tui.kit.terminal.ending import REAL_TIME, SIGNALS

END_S = 60.0
"""For an end that takes two seconds on a machine that has nothing else to do."""
GREYS = (0, 7, 8, 15, 16, 59, 102, 145, 188, 231)
"""Of the 256 colours, besides the ramp of greys."""
COLOUR = re.compile(rb"\x1b\[(?:[0-9]+;)*(?:3[0-7]|38;|9[0-7]|4[0-7]|48;|10[0-7])")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(folder))
    return folder


@pytest.fixture
def argv(tmp_path: Path) -> tuple[str, ...]:
    return without_torch(tmp_path)


@pytest.fixture
def terminal(argv: tuple[str, ...]) -> Iterator[Terminal]:
    with Terminal(argv, 100, 30) as found:
        found.until_shows("Workloads", "cpu", "others")
        # The program, the monitor and the runner.
        found.until(lambda _text: len(found.family()) >= 3)
        yield found


# ---- T25: it goes away ----


def test_t25_the_signals_that_end_a_program_are_all_heard() -> None:
    # Each signal is sent to a process that does nothing: the kernel says which of them end it. No
    # handler of Python's can answer those by which the processor reports a fault.
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
    ends = set()
    for number in signal.valid_signals() - faults - {signal.SIGKILL, signal.SIGSTOP}:
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
            process.send_signal(number)
            # What stops it is undone; what ends it has ended it by then.
            process.send_signal(signal.SIGCONT)
            assert process.stdin is not None
            process.stdin.close()
            if process.wait() == -number:
                ends.add(number)
    assert signal.SIGALRM in ends
    # Python ignores these two.
    assert ends - {signal.SIGPIPE, signal.SIGXFSZ} == {*SIGNALS, *REAL_TIME}


@pytest.mark.slow
@pytest.mark.parametrize("number", [min(REAL_TIME), max(REAL_TIME)])
def test_t25_a_real_time_signal_restores_the_terminal(terminal: Terminal, number: int) -> None:
    terminal.process.send_signal(number)
    assert terminal.exit_code() == 128 + number
    assert_restored(terminal)


@pytest.mark.parametrize("number", each_signal())
def test_t25_a_signal_restores_the_terminal_and_leaves_no_process(
    terminal: Terminal, number: signal.Signals
) -> None:
    family = terminal.family()
    terminal.signal(number)
    assert terminal.exit_code() == 128 + number
    assert_restored(terminal)
    assert_gone(family)


# In the tests of the program, a terminal vanishes that sends SIGHUP.
@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param(False, id="plain", marks=VARIANT),
        pytest.param(True, id="where-SIGHUP-is-ignored"),
    ],
)
def test_t25_a_closed_terminal_ends_it_and_its_children(
    argv: tuple[str, ...], ignored: bool
) -> None:
    # As under nohup, and under a sudo or a multiplexer that keeps the signal to itself.
    shell = ("/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *argv)
    with Terminal(shell if ignored else argv, 100, 30) as terminal:
        terminal.until_shows("Workloads", "cpu")
        family = terminal.family()
        asked = time.monotonic()
        terminal.hang_up()
        assert_gone(family, max(0.0, END_S - (time.monotonic() - asked)))


@pytest.mark.slow
def test_t25_in_a_multiplexer_that_is_ended(argv: tuple[str, ...], tmp_path: Path) -> None:
    tmux = shutil.which("tmux")
    if tmux is None:
        pytest.skip("tmux is not installed here; what it does, closing the terminal, is tested")
    socket = str(tmp_path / "tmux")
    with Terminal((tmux, "-S", socket, "new-session", *argv), 100, 30) as terminal:
        terminal.until_shows("Workloads", "cpu")
        server = subprocess.run(
            [tmux, "-S", socket, "display-message", "-p", "#{pane_pid}"],
            capture_output=True,
            text=True,
            check=True,
        )
        subprocess.run([tmux, "-S", socket, "kill-server"], check=True)
        deadline = time.monotonic() + END_S
        while Path(f"/proc/{server.stdout.strip()}").exists():
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=VARIANT),
        pytest.param(signal.SIGHUP, id="SIGHUP"),
    ],
)
def test_t25_a_signal_ends_it_although_its_terminal_has_stopped_reading(
    terminal: Terminal, number: signal.Signals
) -> None:
    family = terminal.family()
    stall(terminal)
    terminal.signal(number)
    terminal.process.wait(END_S)  # still without reading
    assert terminal.process.returncode == 128 + number
    assert_gone(family)
    assert_restored(terminal)


@VARIANT
def test_a_terminal_that_stops_reading_costs_nothing_once_it_reads_again(
    terminal: Terminal,
) -> None:
    family = terminal.family()
    stall(terminal)
    terminal.keys("1")
    terminal.until_shows("Workloads", "Devices")
    terminal.keys("?")
    terminal.until_shows("escape close")
    assert {process.pid for process in terminal.family()} == {process.pid for process in family}
    terminal.keys("\x1b")
    terminal.until(lambda text: "escape close" not in text)
    terminal.keys("q")
    assert terminal.exit_code() == 0
    assert_restored(terminal)
    assert_gone(family)


# ---- T26: it cannot do much ----


# With a start for each, terminals that can do little have other sizes, too.
@pytest.mark.parametrize(
    ("term", "columns", "rows"),
    [
        ("no-such-terminal", 80, 24),
        pytest.param("vt100", 80, 24, marks=VARIANT),
        pytest.param("linux", 40, 10, marks=VARIANT),
        pytest.param("screen", 20, 5, marks=VARIANT),
        ("xterm", 1, 1),
    ],
)
def test_t26_it_starts_at_any_size_and_is_readable_where_TERM_is(  # noqa: N802
    argv: tuple[str, ...], term: str, columns: int, rows: int
) -> None:
    with Terminal(argv, columns, rows, {"TERM": term, "COLORTERM": ""}) as terminal:
        if columns >= 40:
            text = terminal.until_shows("Devices", "Workloads", "cpu")
            assert "Traceback" not in text
        else:
            terminal.until(lambda _text: b"\x1b[?1049h" in terminal.output)
        # Room comes back, and with it everything.
        terminal.resize(100, 30)
        text = terminal.until_shows("Devices", "Workloads", "Memory", "quit")
        assert "Traceback" not in text
        assert not re.findall(rb"\x1b\[[0-9;]*[34]8;[25];", terminal.output), (
            "only the user's sixteen"
        )
        terminal.keys("q")
        assert terminal.exit_code() == 0
        assert_restored(terminal)


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_t26_where_text_cannot_be_placed_one_line_says_what_to_do(
    argv: tuple[str, ...], term: str
) -> None:
    with Terminal(argv, variables={"TERM": term}) as terminal:
        assert terminal.exit_code() == 2
        assert b"\x1b" not in terminal.output
        said = terminal.output.decode()
        assert said.count("\n") == 1
        assert said.startswith(f"gpu-workbench: TERM={term}: this terminal cannot position text")
        assert "set TERM to its type, such as xterm-256color" in said


@VARIANT
def test_t26_NO_COLOR_draws_without_colours(argv: tuple[str, ...]) -> None:  # noqa: N802
    with Terminal(argv, variables={"NO_COLOR": "1"}) as terminal:
        terminal.until_shows("Devices", "Workloads", "cpu")
        found = {
            match[0]
            for match in re.finditer(rb"\x1b\[[0-9;]*m", terminal.output)
            if COLOUR.match(match[0])
        }
        shades = {code for code in found if not _is_grey(code)}
        assert shades == set()


def _is_grey(code: bytes) -> bool:
    """Return whether the color is a gray, as NO_COLOR requires."""
    for red, green, blue in re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", code):
        if not red == green == blue:
            return False
    for index in re.findall(rb"[34]8;5;(\d+)", code):
        if not (232 <= int(index) <= 255 or int(index) in GREYS):
            return False
    return True


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"LC_ALL": "C"}, id="LC_ALL", marks=VARIANT),
        pytest.param({"LANG": "C", "LC_ALL": "", "LC_CTYPE": ""}, id="LANG"),
    ],
)
def test_t26_LANG_C_is_drawn_in_ASCII(  # noqa: N802
    argv: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    with Terminal(argv, 100, 30, variables) as terminal:
        text = terminal.until_shows("Devices", "Workloads", "cpu", "others")
        assert text.isascii(), [character for character in text if not character.isascii()]


def test_t26_ascii_is_drawn_in_ASCII_in_every_dialog(  # noqa: N802
    argv: tuple[str, ...],
) -> None:
    with Terminal((*argv, "--ascii"), 100, 30) as terminal:
        terminal.until_shows("Devices", "Workloads", "cpu", "others")
        # Of each dialog: the key that opens it, words of it, the key that leaves it.
        for opens, words, leaves in (
            ("o", "tab complete", "\x1b"), ("?", "Keys of", "?"), ("R", "y yes", "n"),
            (":", "type a command", "\x1b"), ("T", "enter save", "\x1b"),
        ):  # fmt: skip
            terminal.keys("3" if opens == "o" else "1")
            terminal.until_shows("o open" if opens == "o" else "R all")
            terminal.keys(opens)
            text = terminal.until_shows(words)
            assert text.isascii(), [character for character in text if not character.isascii()]
            terminal.keys(leaves)
            terminal.until(lambda text, words=words: words not in text)  # type: ignore[misc]


@VARIANT
def test_t26_a_storm_of_sizes_ends_in_the_last_one(terminal: Terminal) -> None:
    sizes = random.Random(6)
    for _ in range(100):
        terminal.resize(sizes.randint(2, 200), sizes.randint(2, 60))
        terminal.read(0.005)
    terminal.resize(80, 24)
    terminal.until_shows("Devices", "Workloads", "cpu", "quit")
    assert terminal.process.poll() is None
    terminal.keys("q")
    assert terminal.exit_code() == 0
    assert_restored(terminal)


@VARIANT
def test_t26_a_size_that_is_the_old_one_again_is_drawn_anew(terminal: Terminal) -> None:
    # Headings of panes and the footer, which do not change by themselves.
    words = ("Devices", "Workloads", "quit")
    terminal.until_shows(*words)
    terminal.signal(signal.SIGSTOP)
    for _ in range(2):
        terminal.resize(10, 5)
        terminal.resize(100, 30)
    assert not [word for word in words if word in terminal.text()]
    terminal.signal(signal.SIGCONT)
    terminal.until_shows(*words)


# ---- T27: it fails itself ----


@pytest.mark.parametrize(
    "where",
    [
        "drawing 1",
        pytest.param("drawing 6", marks=pytest.mark.slow),
        pytest.param("look 2", marks=VARIANT),
        "event 1",
        pytest.param("event 6", marks=pytest.mark.slow),
        pytest.param("paint", marks=VARIANT),
        "start 2",
        pytest.param("key", marks=VARIANT),
    ],
)
def test_t27_an_error_of_its_own_restores_the_terminal_and_is_one_line_with_a_report(
    argv: tuple[str, ...], where: str, state: Path
) -> None:
    broken = (sys.executable, "-m", "tests.terminal.broken", where, *argv[3:])
    with Terminal(broken, 100, 30) as terminal:
        family = terminal.family()
        deadline = time.monotonic() + 60
        while terminal.process.poll() is None and time.monotonic() < deadline:
            terminal.read()
            family = terminal.family() or family
            if where == "key" and "quit" in terminal.text():
                terminal.keys("i")
        assert terminal.exit_code() == 1
        assert_restored(terminal)
        assert_gone(family)
        said = terminal.output[terminal.output.rfind(b"\x1b[?1006l") :].decode()
    assert "gpu-workbench failed" in said
    assert "broken on purpose [/x] 7" in " ".join(said.split())
    assert "Traceback" not in said
    assert "hunter2" not in said
    (report,) = (state / "reports").iterdir()
    assert "broken on purpose" in report.read_text(encoding="utf-8")
    assert report.stat().st_mode & 0o077 == 0
