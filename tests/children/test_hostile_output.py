"""Commands among strangers' texts, and with outputs that take nothing or little."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import patch

import pytest

from tests.children import strangers
from tests.children.strangers import DEVICE, EVIL, FLAG, NAME, PARAMETER, TYPED
from tests.in_process import exit_code_of
from tests.nvml.fixtures import ScriptedNvml, scripted_library
from tests.nvml.scenario import Gpu, Scenario
from tests.recordings.making import recorded
from tests.results.samples import kept
from tests.terminal.faults import each_signal
from tests.tiers import VARIANT
from tui.cli.program import COMMANDS as LISTED
from tui.core.text.glyphs import clean
from tui.headless.waiter import Waiter
from tui.kit.terminal.ending import SIGNALS
from tui.results.store.database import Database
from tui.runs.session.session import Session

__all__ = ["scripted_library"]

PROGRAM = (sys.executable, "-m", "tui")
HOSTILE_GPU = Scenario(devices=(Gpu(name=f"GPU{EVIL[:20]}".encode()),))
NOBODY_S = "4194305"
"""A pid above the kernel's highest."""
RUN = ("run", NAME, "--device", "cpu")
HOSTS = ("--host", "a,b", "--transport", f"sh -c 'echo no{TYPED} >&2; exit 3' {{host}}")
FLEET = ("fleet", *HOSTS)
LINKS = ("links", *HOSTS)
DOCTOR = ("doctor", *HOSTS)
WATCH = ("watch", *HOSTS)
COMPARE = ("compare", NAME, "--flag", f"{FLAG}=off,on", "--device", "cpu")
KEPT = kept(
    1, workload=f"mat{EVIL}mul", facts={"box": EVIL}, tags=(f"tag{EVIL}",), warnings=(EVIL,)
)
KEPT_ID = KEPT.record.id
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--version",),
    ("--help",),
    ("devices",),
    ("devices", "--json"),
    ("list",),
    ("list", "--json"),
    ("code", NAME, "--json"),
    ("code", TYPED),
    ("learn", TYPED),
    ("completion", TYPED),
    ("config",),
    ("config", "--json"),
    ("config", "--path"),
    ("doctor",),
    ("doctor", "--json"),
    DOCTOR,
    (*DOCTOR, "--json"),
    RUN,
    (*RUN, "--json"),
    (*RUN, "--set", f"{PARAMETER}=1..4x2"),
    ("run", TYPED),
    ("run", NAME, "--device", DEVICE),
    ("run", NAME, "--set", f"{TYPED}=1"),
    COMPARE,
    (*COMPARE, "--json"),
    FLEET,
    (*FLEET, "--json"),
    LINKS,
    (*LINKS, "--json"),
    ("rehearse", "--", f"no{TYPED}"),
    ("rehearse", "--gpu", TYPED, "--", "python", "train.py"),
    ("snapshot", "SNAPSHOT"),
    ("snapshot", "SNAPSHOT", "--json"),
    ("snapshot", "SNAPSHOT", "--markdown"),
    ("snapshot", "SNAPSHOT", "--at", "4"),
    ("snapshot", "diff", "SNAPSHOT", "SNAPSHOT"),
    ("snapshot", f"no{TYPED}"),
    ("replay", "RECORDING"),
    ("demo",),
    ("replay", f"no{TYPED}"),
    ("watch", "--pid", NOBODY_S),
    WATCH,
    (*WATCH, "--json"),
    ("watch", "--pid", TYPED),
    ("watch", "--no-screen", "--", f"no{TYPED}"),
    ("watch", "--env"),
    ("results",),
    ("results", "show", KEPT_ID),
    ("results", "export", "--markdown", "before:1d"),
    ("serve", f"--record={TYPED}"),
    ("serve", "--port", TYPED),
)
PER_CHILD: tuple[tuple[str, ...], ...] = (
    ("devices",),
    (*RUN, "--set", f"{PARAMETER}=1..4x2"),
    FLEET,
    ("snapshot", "SNAPSHOT"),
    ("watch", "--pid", NOBODY_S),
    ("watch", "--no-screen", "--", f"no{TYPED}"),
)
"""Commands that between them start each kind of child."""
FEW: set[tuple[str, ...]] = {
    *PER_CHILD,
    ("--help",),
    ("list", "--json"),
    ("code", TYPED),
    ("doctor", "--json"),
    ("config",),
    COMPARE,
    ("results", "show", KEPT_ID),
    ("rehearse", "--gpu", TYPED, "--", "python", "train.py"),
}
"""Commands with which the default run tries outputs; all print through the same function."""
Done = subprocess.CompletedProcess[bytes]
TRACEBACKS = ("Traceback", "Exception ignored", "lost sys.std", "gpu-workbench: failed:")


def words(command: tuple[str, ...] | str) -> str:
    if isinstance(command, str):
        return command
    return " ".join("".join(filter(str.isalnum, word)) or "word" for word in command)


def outputs(commands: Iterable[tuple[str, ...]]) -> list[Any]:
    """Return commands as parameters of a test of outputs."""
    return [
        pytest.param(each, id=words(each), marks=() if each in FEW else VARIANT)
        for each in commands
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, scripted_library: Path) -> Place:
    return Place(tmp_path_factory.mktemp("strangers"), scripted_library)


class Place:
    """A folder of a stranger's files, and the program with the stranger's runner and driver."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder = folder / f"of{TYPED}"
        self._folder.mkdir()
        config = self._folder / "config.toml"
        config.write_text(f"theme = {json.dumps('x' + EVIL[:9])}\nunknown = 1\n")
        self._variables = {
            **ScriptedNvml(library, folder).env(HOSTILE_GPU),
            "GPU_WORKBENCH_PYTHON": strangers.runner(self._folder),
            "GPU_WORKBENCH_STATE": str(folder / "state"),
            "GPU_WORKBENCH_CONFIG": str(config),
        }
        with Database(folder / "state" / "results.sqlite3", writing=True) as database:
            database.add([KEPT])
        self._files = {
            "SNAPSHOT": str(strangers.snapshot(self._folder)),
            "RECORDING": str(strangers.recording(self._folder)),
        }
        self._run_once = functools.cache(self._run_here_whole)

    def expected(self, command: tuple[str, ...]) -> Done:
        """Return what a command does where its streams take everything.

        A command runs once; but results are those of all runs so far.
        """
        return self._run_here_whole(command) if "results" in command else self._run_once(command)

    def run(self, command: tuple[str, ...], redirect: str = "", **variables: str) -> Done:
        """Run a command of the program by a shell, which redirects its streams."""
        argv = [self._files.get(word, word) for word in command]
        return self._started((*PROGRAM, *argv), redirect, variables)

    def run_here(
        self, command: tuple[str, ...], out: BinaryIO, encoding: str = "utf-8"
    ) -> tuple[int, bytes]:
        """Run a command in this process, which costs half; return its exit code and its errors.

        Args:
            command: the arguments.
            out: receives standard output; the caller closes it.
            encoding: of both streams, and of the children's.
        """
        said = io.BytesIO()
        streams = io.TextIOWrapper(out, encoding), io.TextIOWrapper(said, encoding)
        argv = [self._files.get(word, word) for word in command]
        variables = {**self._variables, "PYTHONIOENCODING": encoding}
        with patch.dict(os.environ, variables, clear=True):
            code = exit_code_of(argv, *streams)
        for stream in streams:
            stream.detach()
        return code, said.getvalue()

    def _run_here_whole(self, command: tuple[str, ...]) -> Done:
        out = io.BytesIO()
        code, said = self.run_here(command, out)
        return Done(command, code, out.getvalue(), said)

    def python(self, code: str, *arguments: str, **variables: str) -> Done:
        """Run code that starts the program, and return its outcome."""
        return self._started((sys.executable, "-c", code, *arguments), "", variables)

    def start(self, command: tuple[str, ...], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start a command and leave it to be ended."""
        return subprocess.Popen(
            (*PROGRAM, *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self._variables, **variables},
        )

    def _started(self, argv: Sequence[str], redirect: str, variables: dict[str, str]) -> Done:
        return subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**self._variables, **variables},
            timeout=100,
            check=False,
        )


def assert_harmless(data: bytes, encoding: str = "utf-8") -> None:
    text = data.decode(encoding)
    for line in text.removesuffix("\n").split("\n"):
        assert line == clean(line), repr(line)
        assert not line.startswith("forged"), text
    assert not [word for word in TRACEBACKS if word in text], text


def test_every_command_is_tried() -> None:
    assert {command[0] for command in COMMANDS} >= set(LISTED)


@pytest.mark.parametrize("command", COMMANDS, ids=words)
def test_no_text_of_strangers_reaches_the_terminal_as_more_than_text(
    command: tuple[str, ...], place: Place
) -> None:
    done = place.expected(command)
    assert_harmless(done.stdout)
    assert_harmless(done.stderr)
    assert done.returncode in (0, 1, 2, 127)
    if done.returncode == 2:
        assert done.stdout == b""
    if "--json" in command:
        assert json.loads(done.stdout)["schema"] == 1


# One command for each kind of child, and for each way to fail.
@pytest.mark.parametrize(
    "command",
    [
        *(pytest.param(each, id=words(each)) for each in PER_CHILD),
        *(
            pytest.param(each, id=words(each), marks=VARIANT)
            for each in (
                ("code", TYPED),
                ("replay", f"no{TYPED}"),
                ("results",),
                ("serve", "--port", TYPED),
            )
        ),
    ],
)
def test_a_process_prints_no_more_than_the_command_itself(
    command: tuple[str, ...], place: Place
) -> None:
    expected, done = place.expected(command), place.run(command)
    assert_harmless(done.stdout)
    assert_harmless(done.stderr)
    assert done.returncode == expected.returncode
    for found, printed in ((done.stdout, expected.stdout), (done.stderr, expected.stderr)):
        assert len(found.splitlines()) == len(printed.splitlines())


@pytest.mark.parametrize(
    ("encoding", "command"),
    [
        *(
            pytest.param("ascii", *each.values, id=each.id, marks=each.marks)
            for each in outputs(COMMANDS)
        ),
        pytest.param("latin-1", RUN, id="run-latin-1"),
        pytest.param("latin-1", ("doctor",), id="doctor-latin-1", marks=VARIANT),
    ],
)
def test_what_an_encoding_does_not_have_is_replaced(
    command: tuple[str, ...], encoding: str, place: Place
) -> None:
    expected, out = place.expected(command), io.BytesIO()
    code, said = place.run_here(command, out, encoding)
    assert_harmless(out.getvalue(), encoding)
    assert_harmless(said, encoding)
    assert code == expected.returncode
    if "--json" in command:
        assert json.loads(out.getvalue()).keys() == json.loads(expected.stdout).keys()


def assert_said_that_nothing_is_printed(code: int, said: bytes, expected: Done) -> None:
    assert_harmless(said)
    if not expected.stdout:
        assert (code, said) == (expected.returncode, expected.stderr)
        return
    assert code == 1
    *_, last = said.decode().splitlines()
    assert last.startswith("gpu-workbench: standard output cannot be written: ")


@pytest.mark.parametrize("command", outputs(COMMANDS))
def test_an_output_that_takes_nothing_is_one_line_and_exit_code_1(
    command: tuple[str, ...], place: Place
) -> None:
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 (no file of a path's)
        code, said = place.run_here(command, full)
    assert_said_that_nothing_is_printed(code, said, place.expected(command))


# Each command prints through the same function; a closed output differs from a full one only there.
@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("--help",), id="help", marks=VARIANT),
        pytest.param(("list",), id="list", marks=VARIANT),
        pytest.param(("doctor", "--json"), id="doctor", marks=VARIANT),
        pytest.param(RUN, id="run"),
    ],
)
def test_a_process_whose_output_takes_nothing_ends_in_the_same_way(
    command: tuple[str, ...], redirect: str, place: Place
) -> None:
    done = place.run(command, redirect)
    assert done.stdout == b""
    assert_said_that_nothing_is_printed(done.returncode, done.stderr, place.expected(command))


@pytest.mark.parametrize(
    ("command", "redirect"),
    [
        *((RUN, each) for each in ("2>&-", ">/dev/full 2>&1", "<&- >&- 2>&-")),
        (("run",), "2>/dev/full"),
        *(
            pytest.param(command, redirect, marks=VARIANT)
            for command, redirect in (
                (RUN, "2>/dev/full"),
                (("run",), "2>&-"),
                (("run",), "<&- >&- 2>&-"),
                (("list",), ">/dev/full 2>&1"),
                (("doctor",), "<&- >&- 2>&-"),
            )
        ),
    ],
    ids=words,
)
def test_nobody_to_tell_it_to_changes_nothing_else(
    command: tuple[str, ...], redirect: str, place: Place
) -> None:
    expected = place.expected(command)
    done = place.run(command, redirect)
    assert done.stderr == b""
    if redirect.startswith("2"):
        assert done.returncode == expected.returncode
        assert len(done.stdout.splitlines()) == len(expected.stdout.splitlines())
    else:
        assert done.returncode == (1 if expected.stdout else expected.returncode)


@pytest.mark.parametrize(
    ("command", "redirect"),
    [
        (RUN, ">/dev/full"),
        pytest.param(RUN, ">&-", marks=VARIANT),
        ((*RUN, "--json"), "| sleep 0"),
        pytest.param((*RUN, "--json"), ">/dev/full", marks=VARIANT),
        pytest.param(COMPARE, ">/dev/full", marks=VARIANT),
        ((*COMPARE, "--json"), ">&-"),
    ],
    ids=words,
)
def test_what_was_measured_is_saved_where_it_cannot_be_printed(
    command: tuple[str, ...], redirect: str, place: Place, tmp_path: Path
) -> None:
    expected = place.expected(command).stdout
    assert expected
    done = place.run(command, redirect, GPU_WORKBENCH_STATE=str(tmp_path / "state"))
    (saved,) = (tmp_path / "state" / "results").iterdir()
    *_, said = done.stderr.decode().splitlines()
    # What run prints as JSON can be put into the store; the line says how.
    can = command[0] == "run" and "--json" in command
    hint = "; gpu-workbench results import imports it" if can else ""
    assert said.endswith(f"the output is saved in {saved}{hint}")
    assert saved.stat().st_mode & 0o077 == 0
    assert saved.read_bytes() == expected
    assert saved.suffix == (".json" if "--json" in command else ".txt")


def test_what_can_be_neither_printed_nor_saved_is_on_standard_error(place: Place) -> None:
    expected = place.expected((*RUN, "--json")).stdout
    done = place.run((*RUN, "--json"), ">/dev/full", GPU_WORKBENCH_STATE="/dev/null/none")
    assert expected in done.stderr
    *_, said = done.stderr.decode().splitlines()
    assert said.endswith("nor saved: Not a directory; it is on standard error")
    assert done.returncode == 1


def test_a_reader_that_has_enough_is_no_error_to_be_told(place: Place) -> None:
    done = place.run(("list",), "| sleep 0")
    assert (done.stdout, b"standard output" in done.stderr) == (b"", False)


def test_a_bundle_and_a_replayed_recording_hold_no_escape(place: Place, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.json"
    place.run(("doctor", "--bundle", str(bundle), "--with-names"))
    assert_harmless(bundle.read_bytes())
    assert json.loads(bundle.read_bytes())["schema"] == 1
    recorded(tmp_path / "x")
    assert_harmless(place.run(("replay", str(tmp_path / "x"))).stderr)


BROKEN = """
import sys
from tui.headless import list as broken
from tui.cli.main import main

def fails(*_, **_options):
    raise RuntimeError("broken \\x1b[31m on purpose\\nforged: line")

broken.format_catalogue = fails
sys.exit(main())
"""


def test_an_error_of_our_own_is_one_line_with_a_report(place: Place, tmp_path: Path) -> None:
    done = place.python(BROKEN, "list", GPU_WORKBENCH_STATE=str(tmp_path / "state"))
    assert (done.returncode, done.stdout) == (1, b"")
    *_, said = done.stderr.decode().splitlines()
    (report,) = (tmp_path / "state" / "reports").iterdir()
    assert said.startswith("gpu-workbench: failed: RuntimeError: broken ?[31m on purpose forged")
    assert said.endswith(f"report: {report}")
    assert "in fails" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", each_signal())
@VARIANT
def test_a_signal_costs_nothing_that_was_measured(
    number: signal.Signals, place: Place, tmp_path: Path
) -> None:
    silent = tmp_path / "silent"
    command = (*RUN, "--set", f"{PARAMETER}=1..4x2", "--json")
    variables = {"STRANGER_ANSWERS": "2", "STRANGER_SILENT": str(silent)}
    with place.start(command, variables) as process:
        deadline = time.monotonic() + 60
        while not silent.exists():
            assert time.monotonic() < deadline, "it never ran"
            time.sleep(0.02)
        process.send_signal(number)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    states = [result["status"] for result in json.loads(out)["results"]]
    assert states[:2] == ["ok", "ok"]
    assert_harmless(said)


async def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Waiter(Session())
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(signal.SIGHUP, before)
