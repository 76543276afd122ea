"""A real OOM of torch's allocator in a watched program: what the program does is what it did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.interpreters import environment
from tests.agent.programs import ENDS_AFTER_AUTOGRAD
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.snapshots.model.results import Verdict
from tui.snapshots.read.load import load
from tui.watch.runs.ooms import FROM_EXCEPTION, REBUILT
from tui.watch.runs.process_logs import ProcessLog, process_logs_in

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]

MODEL = (
    ENDS_AFTER_AUTOGRAD
    + """
import os, sys, threading, torch
def grab(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
class Large(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 1
    @staticmethod
    def backward(context, gradient):
        grab(1 << 42)
        return gradient
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(wrap=lambda x: x):
    optimizer.zero_grad()
    loss = wrap(model(torch.ones(2, 8, device="cuda"))).sum()
    loss.backward()
    optimizer.step()
held = [grab(1 << 28) for _ in range(4)]
for _ in range(3):
    step()
def statistics(pid=os.getpid()):
    if os.getpid() == pid:
        torch.cuda.synchronize()
        print("at the end", sorted(torch.cuda.memory_stats().items()), file=sys.stderr)
import atexit
atexit.register(statistics)
"""
)
FORWARD = "def forward():\n    return grab(1 << 41)\nforward()\n"
BACKWARD = "step(Large.apply)\n"
THREAD = """
thread = threading.Thread(target=grab, args=(1 << 41,), name="loader")
thread.start(); thread.join()
print("on it goes")
"""
FINDER = """
tried = 0
for size in range(1000):
    try:
        grab((1 << 40) + size)
    except torch.OutOfMemoryError as error:
        tried += "Tried to allocate 1024.00 GiB" in str(error)
print("tried", tried)
step()
print("went on")
"""
HANDLED_AT_THE_END = "try: grab(1 << 41)\nexcept torch.OutOfMemoryError: sys.exit(5)\n"
RAISED_FROM = """
try:
    grab(1 << 41)
except torch.OutOfMemoryError as error:
    raise ValueError("too large") from error
"""
OBSERVER_RAISES = """
def observer(*numbers):
    print("observed", len(numbers))
    raise KeyError("mine")
torch._C._cuda_attach_out_of_memory_observer(observer)
grab(1 << 41)
"""
KILLED = "try: grab(1 << 41)\nexcept torch.OutOfMemoryError: os.kill(os.getpid(), 9)\n"
NO_ROOM = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))\n" + FORWARD
FORKED = """
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    sys.exit(0)
os.waitpid(pid, 0)
step()
grab(1 << 41)
"""
OWN_HISTORY = """
torch.cuda.memory._record_memory_history(max_entries=50, stacks="python")
held = [grab(1 << 20) for _ in range(5)]
traced = sum(map(len, torch.cuda.memory._snapshot()["device_traces"]))
print("traced", traced)
grab(1 << 41)
"""
SCENES = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "thread": THREAD,
    "batch finder": FINDER,
    "handled at the end": HANDLED_AT_THE_END,
    "raised from it": RAISED_FROM,
    "observer raises": OBSERVER_RAISES,
    "killed": KILLED,
    "no room": NO_ROOM,
    "forked": FORKED,
    "own history": OWN_HISTORY,
}
_CLOCK = re.compile(rb"\[W\d{4} [\d:.]+ ")
"""Of the warnings that torch itself prints at an OOM."""


def run(scene: str, folder: Path, *, watched: bool, **more: str) -> tuple[int, bytes, bytes]:
    program = folder / "program.py"
    program.write_text(MODEL + scene)
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment(folder, watched=watched, more=more),
        capture_output=True,
        check=False,
    )
    errors = _CLOCK.sub(b"", done.stderr)
    return done.returncode, done.stdout, re.sub(rb"0x[0-9a-f]+", b"0x", errors)


def unchanged(scene: str, folder: Path, **more: str) -> tuple[int, bytes, bytes]:
    """With the agent as without it, to the byte: exit code, streams, the allocator's statistics."""
    plain = run(scene, folder, watched=False, **more)
    assert (b"at the end" in plain[2]) == (plain[0] >= 0)
    watched = run(scene, folder, watched=True, **more)
    assert watched == plain
    return plain


def verdict_of(snapshot: Path, text: str) -> Verdict:
    with snapshot.open("rb") as file:
        device = Analysis(load(file)).devices[0]
    return judge(device, device.replay.ooms[-1], parse_oom_texts(text))


def the_one_in(folder: Path) -> ProcessLog:
    (left,) = process_logs_in(folder / "run")
    return left


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_the_snapshot_is_there_and_its_verdict_is_that_of_the_text(
    name: str, tmp_path: Path
) -> None:
    code, _, errors = unchanged(SCENES[name], tmp_path)
    left = the_one_in(tmp_path)
    (oom,) = left.ooms
    assert code == 1
    assert left.steps == oom.step == 3
    assert (oom.handled, oom.text_source, left.kind) == (False, FROM_EXCEPTION, "OutOfMemoryError")
    assert oom.text.encode() in errors
    assert oom.snapshot is not None
    assert oom.snapshot.stat().st_mode & 0o777 == 0o600
    verdict = verdict_of(oom.snapshot, oom.text)
    assert (verdict.requested, verdict.device_free) == (oom.request, oom.free)
    (message,) = parse_oom_texts(oom.text)
    # What torch printed has two decimals.
    assert message.requested == pytest.approx(verdict.requested, rel=0.01)
    assert message.device_free == pytest.approx(verdict.device_free, rel=0.01)
    # The agent has the exact total.
    assert message.total == pytest.approx(verdict.total, rel=0.01)
    assert verdict.total == oom.limit
    # What was asked for, where the statistics have it rounded up to blocks of 512 bytes.
    assert verdict.state.live == pytest.approx(oom.allocated, abs=20 * 512)
    assert verdict.state.reserved == oom.reserved
    assert verdict.cause == "larger than the device"
    if name == "forward":
        assert [frame.name for frame in verdict.stack[:3]] == ["grab", "forward", "<module>"]


def test_in_a_thread_it_is_not_said_to_have_ended_the_program(tmp_path: Path) -> None:
    code, out, errors = unchanged(THREAD, tmp_path)
    assert (code, out) == (0, b"on it goes\n")
    assert b"Exception in thread loader" in errors
    (oom,) = the_one_in(tmp_path).ooms
    assert (oom.thread, oom.handled, oom.text_source) == ("loader", None, REBUILT)
    assert "not the main one" in oom.why_not_known
    for sentence in oom.text.split(". "):
        assert sentence in errors.decode()
    assert oom.snapshot is not None


def test_a_batch_finder_finds_what_it_found(tmp_path: Path) -> None:
    code, out, _ = unchanged(FINDER, tmp_path)
    assert (code, out) == (0, b"tried 1000\nwent on\n")
    left = the_one_in(tmp_path)
    assert (left.oom_count, len(left.ooms), left.steps) == (1000, 1000, 4)
    assert all(oom.handled for oom in left.ooms)
    files = list((tmp_path / "run").glob("oom-*"))
    assert 3 <= len(files) <= 4
    assert {oom.number for oom in left.ooms if oom.snapshot} >= {1, 2, 3}
    assert sum(oom.snapshot is not None for oom in left.ooms) == len(files)


@pytest.mark.parametrize(
    ("name", "code", "handled"),
    [("handled at the end", 5, None), ("raised from it", 1, False), ("killed", -9, None)],
)
def test_whether_it_was_handled(name: str, code: int, handled: bool | None, tmp_path: Path) -> None:
    assert unchanged(SCENES[name], tmp_path)[0] == code
    left = the_one_in(tmp_path)
    (oom,) = left.ooms
    assert oom.handled is handled
    assert left.ended is (name != "killed")
    assert oom.snapshot is not None


def test_an_observer_of_the_user_s_is_called_and_its_exception_is_the_program_s(
    tmp_path: Path,
) -> None:
    code, out, errors = unchanged(OBSERVER_RAISES, tmp_path)
    assert (code, out) == (1, b"observed 4\n")
    assert b"KeyError" in errors
    assert the_one_in(tmp_path).ooms[0].snapshot is not None


def test_no_room_costs_the_snapshot_alone(tmp_path: Path) -> None:
    code, _, errors = unchanged(NO_ROOM, tmp_path)
    assert code == 1
    assert b"OutOfMemoryError" in errors
    assert [path.name for path in (tmp_path / "run").iterdir() if "oom" in path.name] == []


@pytest.mark.parametrize("place", ["/dev/null/run", "/proc/run"])
def test_without_a_folder_nothing_is_different(place: str, tmp_path: Path) -> None:
    code, _, errors = unchanged(FORWARD, tmp_path, GPU_WORKBENCH_RUN=place)
    program = tmp_path / "program.py"
    variables = {**environment(tmp_path, watched=True), "GPU_WORKBENCH_RUN": place}
    done = subprocess.run(
        [sys.executable, str(program)], env=variables, capture_output=True, check=False
    )
    assert (code, done.returncode) == (1, 1)
    assert re.sub(rb"0x[0-9a-f]+", b"0x", _CLOCK.sub(b"", done.stderr)) == errors


def test_a_folder_that_goes_meanwhile_is_made_anew(tmp_path: Path) -> None:
    scene = (
        "import shutil\n"
        "shutil.rmtree(os.environ.get('GPU_WORKBENCH_RUN', '/nowhere'), ignore_errors=True)\n"
    )
    assert unchanged(scene + FORWARD, tmp_path)[0] == 1
    assert len(list((tmp_path / "run").glob("oom-*.pickle"))) == 1


def test_a_fork_tells_nothing(tmp_path: Path) -> None:
    code, out, _ = unchanged(FORKED, tmp_path)
    assert (code, out) == (1, b"child\n")
    left = the_one_in(tmp_path)
    assert (left.steps, left.oom_count, left.kind) == (4, 1, "OutOfMemoryError")


@pytest.mark.parametrize("stacks", ["with stacks", "without stacks"])
def test_a_history_of_the_user_s_is_what_the_snapshot_has(stacks: str, tmp_path: Path) -> None:
    scene = (
        OWN_HISTORY if stacks == "with stacks" else OWN_HISTORY.replace("(", "(context=None, ", 1)
    )
    _, out, _ = unchanged(scene, tmp_path)
    (oom,) = the_one_in(tmp_path).ooms
    assert oom.snapshot is not None
    verdict = verdict_of(oom.snapshot, oom.text)
    assert verdict.requested == oom.request
    assert b"traced" in out
    # Of the line that asked there is a stack, torch's or the agent's.
    assert [frame.name for frame in verdict.stack if frame.name == "grab"] == ["grab"]


SWITCHES = """
import sys, threading, torch
torch.ones(1, device="cuda")
from gpu_workbench_agent.agent import Agent
agent = Agent(torch, sys.argv[1])
going = True
counts = [0, 0]
def allocate(which):
    while going:
        held = [torch.empty(700 * (i + 1), device="cuda") for i in range(8)]
        counts[which] += len(held)
threads = [threading.Thread(target=allocate, args=(which,)) for which in (0, 1)]
for thread in threads:
    thread.start()
for turn in range(10_000):
    agent.record(2000)
    agent.stop_recording()
going = False
for thread in threads:
    thread.join()
print("lives", all(counts))
"""


@pytest.mark.slow
def test_ten_thousand_switches_beside_two_threads_that_allocate(tmp_path: Path) -> None:
    program = tmp_path / "switches.py"
    program.write_text(SWITCHES)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "other")],
        env=environment(tmp_path, watched=True),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "lives True\n"), done.stderr
