"""``gpu-workbench watch -- COMMAND``, of commands that need no GPU; and the runs that are kept."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.watch.test_watched_processes import BEGAN, held, process
from tui.allocators.messages import ProcessFigures, StepsCounted, TorchProcesses
from tui.cli.program import parse
from tui.core import reports
from tui.kit.command_line.output import UsageError
from tui.watch.cli.launch import RunOutcome, build_report
from tui.watch.cli.options import WatchOptions
from tui.watch.cli.output import encode_stored_runs, stored_run_lines
from tui.watch.cli.watch import format_exports, watch
from tui.watch.runs import runs, start
from tui.watch.runs.process_logs import Contents, read_folder
from tui.watch.runs.run_summary import describe_left_run
from tui.watch.runs.runs import StartedRun
from tui.watch.session import run_folder
from tui.watch.session.run_folder import StoredRuns
from tui.watch.state.processes import RunProcesses
from workloads.agent import ENTRIES, RECORD, RUN, identity

ROOT = Path(__file__).parents[2]
TALKS = "import os, sys; os.write(1, b'out \\xff\\x1b[1m\\n'); os.write(2, b'err\\n'); "


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "state"


def tui(*words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tui", "watch", *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=100)


def python(code: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code)


def test_its_output_comes_first_to_the_byte_and_its_exit_code_is_returned(state: Path) -> None:
    done = tui("--no-screen", *python(TALKS + "print(sys.stdin.read() == ''); sys.exit(41)"))
    (folder,) = (state / "runs").iterdir()
    log = (folder / "output.log").read_bytes()
    assert set(log.splitlines()) == {b"out \xff\x1b[1m", b"err", b"True"}
    assert done.returncode == 41
    assert done.stderr == b"err\n"
    shown = b"out \xff\x1b[1m\nTrue\n"
    assert done.stdout.startswith(shown)
    after = done.stdout[len(shown) :].decode()
    assert "ended with exit code 41" in after
    assert "no Python process used a GPU" in after
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} <= {0o600, 0o644}
    facts = json.loads((folder / "run.json").read_bytes())
    assert (facts["code"], facts["signal"], facts["command"][0]) == (41, None, sys.executable)


def test_a_session_of_its_own_and_its_signal_is_reported(state: Path) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.environ['GPU_WORKBENCH_RUN'])"
    done = tui("--no-screen", "--json", *python(code + "; os.abort()"))
    found = json.loads(done.stdout)
    assert done.returncode == 128 + 6
    assert found["exit"] == {"code": None, "signal": 6}
    assert found["unavailable"]["exit.code"] == "it was ended by a signal"
    (folder,) = (state / "runs").iterdir()
    assert (folder / "output.log").read_text() == f"True {folder}\n"
    assert f"its output is in {folder}/output.log" in done.stderr.decode()


def test_in_place_it_is_the_same_process(state: Path) -> None:
    code = "import os, sys; print(os.getpid()); sys.exit(5)"
    process = subprocess.Popen(
        [sys.executable, "-m", "tui", "watch", "--here", *python(code)], stdout=subprocess.PIPE
    )
    out, _ = process.communicate(timeout=100)
    assert (int(out), process.returncode) == (process.pid, 5)
    (run,) = runs.stored_runs()
    assert (run.pid, run.is_running, run.code) == (process.pid, False, None)
    assert run.folder.parent == state / "runs"
    # No torch, no agent: nothing tells of its end.
    assert run.last_sign is None


def test_what_is_exported_is_what_a_command_is_started_with(state: Path, tmp_path: Path) -> None:
    lines = "\n".join(format_exports(tmp_path / "it's here", 7))
    script = f"{lines}\nexec env"
    for present in ({"PYTHONPATH": "/one:/two"}, {}):
        done = subprocess.run(
            ["/bin/sh", "-c", script], env=present, capture_output=True, text=True, check=True
        )
        found = dict(line.split("=", 1) for line in done.stdout.splitlines())
        expected = start.variables(tmp_path / "it's here", 7, present)
        assert {name: found[name] for name in ("PYTHONPATH", RUN, RECORD)} == expected
    assert not state.exists()


def test_a_program_that_is_not_there_leaves_no_run(state: Path) -> None:
    for how in ("--no-screen", "--here"):
        done = tui(how, "--", "no-such-program")
        assert (done.returncode, done.stdout) == (127, b"")
        assert b"no-such-program: no such program on PATH" in done.stderr
    assert runs.stored_runs() == []
    assert (state / "runs").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--no-screen", "--", "a", "--json", "-x"), ("a", "--json", "-x")),
        (("--record", "--here", "--", "a", "--", "b"), ("a", "--", "b")),
        (("--record=5", "--no-screen", "--", "run", "list"), ("run", "list")),
    ],
)
def test_what_stands_after_two_dashes_is_the_command_s(
    words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    found = parse(("watch", *words)).values
    assert tuple(found["command"]) == expected
    assert found.get("entries") in (None, 5, ENTRIES)
    assert "json" not in found


started = partial(WatchOptions, command=("a",), dashes=True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (started(json=True), "--json: printed without a screen; add --no-screen"),
        (started(markdown=True), "--markdown: printed without a screen"),
        (started(here=True, no_screen=True), "give one of them"),
        (started(here=True, json=True), "takes this program's place"),
        (started(no_screen=True, json=True, markdown=True), "give one of them"),
        (started(env=True), "takes no command"),
        (WatchOptions(env=True, json=True), "shell lines"),
        (WatchOptions(here=True), "--here: give the command after --"),
        (WatchOptions(no_screen=True), "--no-screen: give the command after --"),
        (WatchOptions(entries=5), "--record: give the command after --"),
        (WatchOptions(markdown=True), "--markdown: give the command after --"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: WatchOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        watch(options)


def test_without_a_terminal_a_command_is_not_started_under_the_screen(state: Path) -> None:
    done = tui(*python("print(1)"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the workbench needs a terminal; without one add --no-screen" in done.stderr
    assert not (state / "runs").exists()


def test_growth_is_reported_by_step_with_its_interval(state: Path) -> None:
    processes = RunProcesses()
    processes.apply(TorchProcesses(BEGAN, (process(7), process(8))))
    for at in range(100):
        processes.apply(StepsCounted(BEGAN + at, {"box-7-100": at * 4}))
        processes.apply(held(at, (1 << 30) + at * 4096))
        processes.apply(held(at, (1 << 30) + at * 4096, pid=8))
    run = StartedRun(state, ("python",), "/", BEGAN, ended=BEGAN + 100, code=0)
    found = build_report(RunOutcome(run, processes))
    grows = {each["pid"]: each["growth"] for each in found["processes"]}
    assert grows[7] == {"cuda:0": {"rate": 1024.0, "low": 1024.0, "high": 1024.0, "per": "step"}}
    assert grows[8] == {"cuda:0": {"rate": 4096.0, "low": 4096.0, "high": 4096.0, "per": "s"}}
    short = RunProcesses()
    short.apply(TorchProcesses(BEGAN, (process(7),)))
    short.apply(held(1))
    found = build_report(RunOutcome(run, short))
    assert found["processes"][0]["growth"] is None
    assert found["unavailable"]["processes.0.growth"] == "not known (needs 30 s or 48 readings)"


def test_a_device_that_was_in_change_at_the_last_reading_is_listed_once_with_its_last_figures(
    state: Path,
) -> None:
    processes = RunProcesses()
    processes.apply(TorchProcesses(BEGAN, (process(7),)))
    processes.apply(held(1, 5 << 30))
    in_change = {"7 cuda:0": "in change", "7 cuda:1": "in change too"}
    processes.apply(ProcessFigures(BEGAN + 2, (), in_change))
    run = StartedRun(state, ("python",), "/", BEGAN, ended=BEGAN + 3, code=0)
    found = build_report(RunOutcome(run, processes))
    devices = found["processes"][0]["devices"]
    assert [(each["ordinal"], each["allocated"]) for each in devices] == [(0, 5 << 30), (1, None)]
    assert "processes.0.devices.0.allocated" not in found["unavailable"]
    assert found["unavailable"]["processes.0.devices.1.allocated"] == "in change too"


# ---- the runs that are kept ----


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nothing",), "no stored run is named nothing; gpu-workbench watch lists them"),
        (("2026",), "2 stored runs begin with 2026: 2026-b, 2026-a; give more"),
        (("2026-a",), "needs a terminal; without one add --no-screen, which prints its report"),
        (
            ("2026-a", "train.py"),
            "or the name of one stored run, which takes --no-screen",
        ),
        (
            ("2026-a", "--record"),
            "or the name of one stored run, which takes --no-screen",
        ),
        (("--",), "--: give a command after it, as in -- python train.py"),
        (("true", "--lr", "3"), "no option --lr; put -- before a command that has options"),
        (("true", "x.py", "--record"), "true x.py: put -- before a command that has options"),
        (("nothing", "--stacks"), "no stored run is named nothing"),
    ],
)
def test_a_stored_run_is_found_by_its_name_or_is_refused_in_a_line(
    words: tuple[str, ...],
    says: str,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, name in enumerate(("2026-a", "2026-b")):
        monkeypatch.setattr(runs, "new_folder", lambda name=name: state / "runs" / name)
        runs.save(replace(runs.new_run(["x"]), began=float(number), ended=9.0, code=0))
    assert runs.find_run("2026-a").folder.name == "2026-a"
    assert runs.find_run("2026-b").command == ("x",)
    with pytest.raises(UsageError, match=says):
        parse(("watch", *words)).carry_out()


@pytest.mark.parametrize("option", ["--no-screen", "--markdown", "--json"])
def test_the_report_of_a_stored_run_is_printed(
    option: str,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runs, "new_folder", lambda: state / "runs" / "2026-a")
    run = runs.new_run(["python", "train.py"])
    runs.save(replace(run, began=1.0, ended=9.0, code=3))
    assert parse(("watch", "2026-a", option)).carry_out() == 0
    printed = capsys.readouterr().out
    if option == "--json":
        assert json.loads(printed)["exit"] == {"code": 3, "signal": None}
    else:
        assert "python train.py ended with exit code 3 after 8 s" in printed


@pytest.mark.parametrize("words", [("true",), ("python", "train.py"), ("rm", "x", "y")])
def test_a_command_without_options_needs_no_dashes(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[tuple[str, ...]] = []

    def launch(options: WatchOptions) -> int:
        launched.append(tuple(options.command))
        return 0

    monkeypatch.setattr("tui.watch.cli.watch._launch", launch)
    if words[0] == "rm":
        with pytest.raises(UsageError, match="give a command after --"):
            parse(("watch", *words)).carry_out()
    else:
        assert parse(("watch", *words)).carry_out() == 0
        assert launched == [words]


def test_a_run_that_a_full_disk_has_no_room_for_leaves_no_folder(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reports, "write_private", full)
    with pytest.raises(start.StartError) as caught:
        start.begin([sys.executable], None)
    assert str(caught.value) == (
        f"no folder for the run in {state / 'runs'}: No space left on device; set "
        "GPU_WORKBENCH_STATE to a folder with room that may be written to"
    )
    assert runs.stored_runs() == []


@pytest.mark.usefixtures("state")
def test_what_is_left_of_a_run_is_reported_in_a_line() -> None:
    run, process = start.begin([sys.executable, "-c", "input()"], None)
    process.wait()
    # Nobody has written its end down, but this program has started it.
    said = describe_left_run(run)
    assert said.startswith(f"{sys.executable} -c ended with exit code 1 after 0")
    assert said.endswith(
        f"; stored in {run.folder}; gpu-workbench watch {run.folder.name} shows it again"
    )
    assert runs.find_run(run.folder.name).code == 1
    unseen = replace(run, ended=None, code=None, supervisor=None)
    here = runs.record_start(unseen, os.getpid())
    assert f"is still running as process {os.getpid()}; stored in " in describe_left_run(here)
    runs.save(replace(here, start_ticks=1))
    assert re.search("end unknown; last sign [0-9:]{8}; stored in ", describe_left_run(here))


@pytest.mark.usefixtures("state")
def test_two_runs_of_one_program_in_one_second_have_a_folder_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _form: "20260101-000000")
    found = [runs.new_run([name]) for name in ("first", "second", "third")]
    assert [runs.find_run(run.folder.name).command for run in found] == [
        ("first",),
        ("second",),
        ("third",),
    ]


@pytest.mark.usefixtures("state")
def test_the_list_reads_what_runs_have_left_only_where_it_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Path] = []

    def reading(folder: Path) -> Contents:
        read.append(folder)
        return read_folder(folder)

    monkeypatch.setattr(run_folder, "read_folder", reading)
    first, second = runs.new_run(["first"]), runs.new_run(["second"])
    names = {"identity": "host-7-1", "pid": 7, "host": "host", "rank": None, "torch": "2.9"}
    for run in (first, second):
        begin = json.dumps({"event": "begin", "at": 1.0, **names})
        (run.folder / "host-7-1.jsonl").write_text(f"{begin}\n")
    listed = StoredRuns(runs.stored_runs)
    assert [[left.ended for left in each.logs] for each in listed.read()] == [[False], [False]]
    assert listed.read() == listed.read()
    assert sorted(read) == sorted([first.folder, second.folder])
    with (first.folder / "host-7-1.jsonl").open("a") as file:
        end = {"out_of_memory": False, "steps": 3, "text": "", "type": "", "ooms": 0}
        file.write(json.dumps({"event": "end", "at": 2.0, **end}) + "\n")
    ended = {each.run.folder: each.logs[0].ended for each in listed.read()}
    assert ended == {first.folder: True, second.folder: False}
    assert read[2:] == [first.folder]
    runs.drop(second)
    assert [each.run.command for each in listed.read()] == [("first",)]


def test_the_newest_twenty_are_kept_and_none_that_goes_on(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(range(1000))
    monkeypatch.setattr(runs, "new_folder", lambda: state / "runs" / f"run-{next(names):03}")
    began = iter(range(1000))
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0 + next(began))
    first = runs.record_start(runs.new_run(["first"]), os.getpid())
    for number in range(30):
        run = runs.new_run([f"n{number}"])
        runs.save(replace(run, ended=1.0, code=0))
    commands = [run.command[0] for run in runs.stored_runs()]
    assert first.is_running
    assert commands == [f"n{number}" for number in range(29, 9, -1)] + ["first"]


def test_the_bytes_of_all_are_limited(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_RUNS_SIZE", "1M")
    for number in range(3):
        place = state / "runs" / f"run-{number}"
        monkeypatch.setattr(runs, "new_folder", lambda place=place: place)
        run = runs.new_run([f"n{number}"])
        runs.save(replace(run, began=float(number), ended=1.0, code=0))
        (place / "oom.pickle").write_bytes(bytes(600_000))
    monkeypatch.setattr(runs, "new_folder", lambda: state / "runs" / "newest")
    runs.new_run(["newest"])
    assert [run.command[0] for run in runs.stored_runs()] == ["newest", "n2"]


def test_a_folder_of_a_process_that_runs_is_kept(state: Path) -> None:
    place = state / "runs" / "by-env"
    place.mkdir(parents=True)
    path = place / f"{identity()}.jsonl"
    path.write_text("{}\n")
    os.utime(path, (0, 0))
    os.utime(place, (0, 0))
    for _ in range(runs.limits().runs + 1):
        (state / "runs" / f"x{_}").mkdir()
    runs.prune(keep=state)
    assert path.exists()


@pytest.mark.usefixtures("state")
def test_what_is_beyond_the_limits_is_dropped_before_it_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    for number in range(4):
        run = runs.new_run(["python", str(number)])
        made.append(replace(run, began=float(number + 1), ended=number + 2.0, code=0))
        runs.save(made[-1])
    monkeypatch.setenv("GPU_WORKBENCH_RUNS_KEPT", "2")
    assert [line.split()[-1] for line in stored_run_lines()[1:]] == ["3", "2"]
    assert [run.folder.exists() for run in made] == [False, False, True, True]


def test_they_are_listed_with_how_they_ended(state: Path) -> None:
    run = runs.new_run(["python", "train.py"])
    runs.save(replace(run, ended=run.began + 3, code=1))
    (run.folder / "oom-x-1-1-1.pickle").write_bytes(b"x")
    (state / "runs" / "strange").mkdir()
    (state / "runs" / "strange" / "run.json").write_text('{"schema": 9}')
    heading, *lines = stored_run_lines()
    (line,) = [each for each in lines if run.folder.name in each]
    (strange,) = [each for each in lines if "strange" in each]
    assert strange.endswith("run.json cannot be used: schema 9 is not 1")
    assert str(state) in heading
    assert "gpu-workbench watch NAME shows one" in heading
    assert "exit code 1  1 snapshot" in line
    assert line.endswith("python train.py")
    (plain,) = [each for each in encode_stored_runs() if "problem" not in each]
    assert (plain["exit"], len(plain["snapshots"])) == ({"code": 1, "signal": None}, 1)
