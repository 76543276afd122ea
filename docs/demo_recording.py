"""Make the recording that comes with the program: what ``gpu-workbench demo`` plays.

A story in a minute, with a caption for each scene: idle GPUs; another user's training, which takes
memory on the last of them; a large training step, which the GPU wins; a model so small that it
loses, with the width from which on it would not; a flag of cuDNN's that pays off; an evaluation
that leaks until the GPU is full, the verdict on it, its timeline and its flame view. A single GPU
is timed while the other process pauses. The figures are those of this machine's GPUs. Where they
are simulated (see ``tui/rehearsal/device``), their times are invented: the recording says so in its
first line, and the screens say so as long as it plays.

Run in an environment that has torch's CUDA build, simulated or not, on a quiet Linux machine:
``python docs/demo_recording.py``; then ``python docs/pictures.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))


from tests.simulated_gpu import libraries as simulated  # noqa: E402
from tui.devices.memory import account  # noqa: E402
from tui.headless.compare import Flag, parse_flag_setting  # noqa: E402
from tui.recordings import DEMO, DEMO_SNAPSHOT  # noqa: E402
from tui.recordings.lines import (  # noqa: E402
    GZIP,
    Scene,
    decode_event,
    read_events,
    scan_recording,
)
from tui.recordings.recorder import Recorder, Redaction  # noqa: E402
from tui.rehearsal.device.settings import DeviceSettings, state_folder  # noqa: E402
from tui.runs.session.session import Session  # noqa: E402
from tui.runs.state.events import FlagSet  # noqa: E402
from tui.runs.state.state import WorkbenchState  # noqa: E402
from workloads.protocol.flag_words import PRECISION, format_setting  # noqa: E402
from workloads.protocol.results import Setting  # noqa: E402

PLACE = ROOT / "tui" / "recordings"
OWN = ROOT / "docs" / "demo_workloads.py"
WIN, LOSS = "training_step", "tiny_model"
"""What a simulated GPU, which computes nothing, can run without a check that says so."""
CONVOLUTION = "conv2d"
LEAK = "leaking_evaluation"
LEAKS: dict[str, Setting] = {"mib": 0, "loading_ms": 300}
"""Its parameters: it fills the GPU, so slowly that its memory can be seen to grow."""
FREE_PER_SEQUENCE = 2**30
"""Free memory, bytes, for each sequence in a batch: the GPU is then full after some 30 batches."""
VARIABLE = "DEMO_SNAPSHOT"
"""Names the snapshot for ``demo_workloads.py``, which is not imported: the runner reads it, and the
catalogue has to be alone here."""
LAST = "inference_modes"
LARGE = {"batch": 4096, "width": 4096, "depth": 16}
"""Its parameters at the end, so that what it holds can be seen in the bar."""
IDLE_S, READ_S, STEP_S = 0.5, 2.4, 0.7
"""Seconds of the idle machine, of each result, and of each moment on the timeline."""
SAMPLE_S = 0.25
"""Seconds between two samples of the devices."""
MOMENTS = (0.15, 0.35, 0.55, 0.75, 0.95)
"""The moments of the snapshot that the timeline shows, as shares of its trace."""
LONGEST_S = 70
"""The most seconds of the recording."""
LEAST_WIN = 5
"""Speed-up from which the work is called large."""
SETTINGS = DeviceSettings(devices=2, total_mib=8192, name="simulated")
NEIGHBOUR = """
import sys, time, torch
device = f"cuda:{torch.cuda.device_count() - 1}"
torch.cuda.set_device(device)
part = torch.cuda.mem_get_info()[1] // 40
kept, one = [], torch.randn(4096, 4096, device=device)
while True:
    if len(kept) < 12:
        kept.append(torch.empty(part, dtype=torch.uint8, device=device))
    for _ in range(6):
        one = torch.tanh(one @ one)
    torch.cuda.synchronize()
    time.sleep(0.02 if time.time() % 5 < 4 else 0.2)
"""
"""What another user's process does, which this program has not started.

It takes memory step by step, and waits for data now and then."""
PIDS = "neighbours"
"""Name of the file with the PIDs of these processes."""
NEIGHBOURS_COMMAND = "python train.py"
"""Its command, of which a redacted recording has the first word alone."""


@contextmanager
def gpus() -> Iterator[bool]:
    """Return whether the GPUs are simulated; processes started within have their environment.

    Raises:
        SystemExit: there is no GPU, neither simulated nor real.
    """
    libraries = simulated.libraries()
    with tempfile.TemporaryDirectory(dir=state_folder()) as state:
        if libraries is not None:
            os.environ.update(simulated.environment(libraries, SETTINGS, Path(state) / "state"))
        check = "import torch; raise SystemExit(not torch.cuda.is_available())"
        if subprocess.run([sys.executable, "-c", check], check=False).returncode:
            raise SystemExit("torch sees no GPU here, real or simulated")
        yield libraries is not None


def list_pids(folder: Path) -> list[int]:
    """Return the PID of each other process so far, in their order."""
    return [int(pid) for pid in (folder / PIDS).read_text().split()]


@contextmanager
def neighbour(folder: Path) -> Iterator[None]:
    """Another process on the last GPU, which has another parent than this program."""
    script = folder / "train.py"
    script.write_text(NEIGHBOUR)
    # The shell ends at once, so that the process has no ancestor of ours.
    line = f'"{sys.executable}" "{script}" & echo $! >> "{folder / PIDS}"'
    subprocess.run(["sh", "-c", line], check=True, start_new_session=True)
    try:
        yield
    finally:
        os.kill(list_pids(folder)[-1], signal.SIGKILL)


async def play(
    session: Session,
    folder: Path,
    snapshot: Path,
    step: Mapping[str, Setting],
    convolution: Mapping[str, Setting],
    flag: Flag,
) -> None:
    """Run the scenes of the recording."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    def show(
        caption: str,
        workload: str = "",
        tab: str = "workbench",
        view: str = "",
        moment: float | None = None,
    ) -> None:
        session.state.publish(Scene(caption, tab, workload, view, moment))

    changed = asyncio.Event()
    session.state.bus.on_change(lambda _parts: changed.set())

    async def until(holds: Callable[[WorkbenchState], bool]) -> None:
        while not holds(session.state):
            changed.clear()
            await changed.wait()

    def settled(state: WorkbenchState) -> bool:
        return not state.runs.pending()

    await until(lambda state: state.machine.sample is not None)
    gpus = [view for view in session.state.machine.devices if view.nvml is not None]
    alone = len(gpus) == 1
    session.select_device(gpus[0].key)
    session.watch_torch(True)
    show(f"{'An idle GPU' if alone else f'{len(gpus)} idle GPUs'}")
    with ExitStack() as others:
        await asyncio.sleep(IDLE_S)
        others.enter_context(neighbour(folder))
        await until(_has_listed_stranger)
        session.select_device(gpus[-1].key)
        show("A training starts. Whose is it, and what does it hold?", tab="processes")
        await until(_has_read_stranger)
        await until(_computes)
        await asyncio.sleep(READ_S)
        await until(lambda state: state.runs.runner.status == "ready")
        if alone:
            others.close()
            await until(lambda state: not _computes(state))
        session.select_device(gpus[0].key)
        session.set_parameters(WIN, dict(step))
        session.run([WIN], ["cpu", "cuda:0"], "quick")
        show("A training step, on the CPU and on the GPU", WIN)
        await until(settled)
        win = _ratio(session.state, WIN)
        _require(win > LEAST_WIN, f"the GPU wins by {win:.1f}x alone")
        _require(not _list_doubts(session.state), f"{WIN}: {_list_doubts(session.state)}")
        show(f"The GPU is {win:.0f} times as fast", WIN)
        await asyncio.sleep(READ_S)
        session.run([LOSS], ["cpu", "cuda:0"], "quick")
        show("A tiny model: does the GPU still win?", LOSS)
        await until(settled)
        loss = 1 / _ratio(session.state, LOSS)
        _require(loss > 1.1, f"the tiny model takes {loss:.1f}x the time on the GPU alone")
        _require(not _list_doubts(session.state), f"{LOSS}: {_list_doubts(session.state)}")
        show("It loses: launching takes longer than computing", LOSS)
        await asyncio.sleep(READ_S - STEP_S)
        show("Swept over widths: the GPU wins once they are wide enough", LOSS, view="detail")
        await asyncio.sleep(READ_S)
        session.set_parameters(CONVOLUTION, dict(convolution))
        name, settings = flag
        session.state.publish(FlagSet(name, settings[1]))
        session.here.request_comparison(CONVOLUTION, "cuda:0", name, settings, budget="quick")
        off, on = (format_setting(name, setting) for setting in settings)
        show(f"Does {name} pay? {off} and {on}, in turn", CONVOLUTION)
        await until(settled)
        verdicts = [each.comparison for each in session.state.runs.comparisons.values()]
        _require(
            all(each and each.verdict == "faster" for each in verdicts), f"{name} does not pay"
        )
        gain = min(each.ratio for each in verdicts if each and each.ratio)
        cost = ", at a lower precision" if name.endswith(PRECISION) else ""
        show(f"It pays: {gain:.2g} times as fast with {on}{cost}", CONVOLUTION)
        await asyncio.sleep(READ_S)
        if alone:
            others.enter_context(neighbour(folder))
            await until(_computes)
        free = _free_memory(session.state)
        session.set_parameters(LEAK, {**LEAKS, "batch": max(1, free // FREE_PER_SEQUENCE)})
        session.run([LEAK], ["cuda:0"], "quick")
        show("An evaluation leaks: its memory grows with each batch", tab="memory")
        await until(settled)
        if not snapshot.exists():
            raise SystemExit(f"{LEAK} has not run out of memory: {session.state.log.lines}")
        session.set_parameters(LAST, dict(LARGE))
        session.run([LAST], ["cuda:0"], "careful")
        show("Out of memory. The verdict names the line", tab="snapshot", view="verdict")
        await asyncio.sleep(READ_S + STEP_S)
        for moment in MOMENTS:
            words = "The timeline: each batch adds memory, and none frees it"
            show(words, tab="snapshot", view="timeline", moment=moment)
            await asyncio.sleep(STEP_S)
        for moment in MOMENTS[::2]:
            words = "The flame view: which calls hold the memory"
            show(words, tab="snapshot", view="flame", moment=moment)
            await asyncio.sleep(2 * STEP_S)
        _require(bool(session.state.runs.pending()), f"{LAST} has ended, and its memory is free")
        words = "Your turn: gpu-workbench watch -- python train.py"
        show(words, tab="snapshot", view="verdict")
        await asyncio.sleep(READ_S)
    lasted = loop.time() - began
    _require(lasted < LONGEST_S, f"it lasts {lasted:.0f} s")


async def prepare(session: Session) -> None:
    """Read the files and measure the ceilings that the recording would wait for."""
    changed = asyncio.Event()
    session.state.bus.on_change(lambda _parts: changed.set())
    session.run([WIN, LOSS], ["cpu", "cuda:0"], "quick")
    while session.state.runs.pending() or session.state.runs.runner.status != "ready":
        changed.clear()
        await changed.wait()


def _require(confirmed: bool, otherwise: str) -> None:
    """Check that what was measured is what the story tells.

    Raises:
        SystemExit: it is not.
    """
    if not confirmed:
        raise SystemExit(f"{otherwise}: record again on a quiet machine")


def _list_doubts(state: WorkbenchState) -> str:
    """Return the warnings of all runs; empty without any."""
    results = [run.result for run in state.runs.book.values() if run.result is not None]
    return ", ".join(warning for result in results for warning in result.warnings)


def _ratio(state: WorkbenchState, workload: str) -> float:
    """Return the CPU's time over the GPU's, of the newest runs of a workload."""
    times = {}
    for run in state.runs.book.values():
        result = run.result
        if run.request.workload == workload and result is not None and result.time is not None:
            times[run.request.device] = result.time.median_s
    return times["cpu"] / times["cuda:0"]


def _has_listed_stranger(state: WorkbenchState) -> bool:
    """Return whether NVML lists the neighbour's process."""
    devices = state.machine.sample.devices if state.machine.sample else ()
    return bool(devices and devices[-1].processes)


def _has_read_stranger(state: WorkbenchState) -> bool:
    """Return whether the neighbour's allocator has been read from outside."""
    devices = state.machine.sample.devices if state.machine.sample else ()
    pids = {row.pid for row in devices[-1].processes or ()} if devices else set()
    watched = state.machine.allocators.allocators() if state.machine.allocators else ()
    return any(each.process.pid in pids and each.figures.allocated for each in watched)


def _computes(state: WorkbenchState) -> bool:
    """Return whether the neighbour on the last GPU computes."""
    devices = state.machine.sample.devices if state.machine.sample else ()
    return bool(devices and devices[-1].processes and devices[-1].utilization.gpu)


def _free_memory(state: WorkbenchState) -> int:
    """Return the free bytes of the first GPU."""
    assert state.machine.sample is not None
    free = state.machine.sample.devices[0].memory.free
    assert free is not None
    return free


async def record(
    path: Path,
    folder: Path,
    snapshot: Path,
    step: Mapping[str, Setting],
    convolution: Mapping[str, Setting],
    flag: Flag,
    *,
    simulated: bool,
) -> None:
    """Run the session into a file that is not there yet."""
    note = "its GPUs are simulated: memory is torch's own, times are invented" if simulated else ""
    first = Session(files=[str(OWN)])
    await first.start()
    try:
        await prepare(first)
    finally:
        await first.stop()
    recorder = Recorder(path, Redaction(), note, simulated=simulated)
    session = Session(files=[str(OWN)], interval=SAMPLE_S, attachments=[recorder])
    await session.start()
    try:
        await play(session, folder, snapshot, step, convolution, flag)
    finally:
        await session.stop()


# ---- traces of this machine ----


def _neutral(text: str, folder: Path) -> str:
    """Return the text without paths of this machine."""
    places = {
        folder: "/tmp",
        ROOT: "/gpu-workbench",
        Path(sys.prefix): "/env",
        Path(sys.base_prefix): "/python",
    }
    for path, name in places.items():
        text = text.replace(str(path), name)
    return text


def cleaned_recording(made: Path, folder: Path) -> bytes:
    """Return the recording, compressed in one piece, with the other processes' commands."""
    text = zlib.decompress(made.read_bytes(), wbits=GZIP).decode()
    pids = list_pids(folder)

    def name(value: dict[str, object]) -> dict[str, object]:
        if value.get("pid") in pids and value.get("command"):
            value["command"] = NEIGHBOURS_COMMAND
        return value

    end = find_whole_end(made)
    lines = [json.loads(line, object_hook=name) for line in _neutral(text, folder).splitlines()]
    named = [
        json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        for line in lines
        if line.get("t", 0.0) <= end
    ]
    return gzip.compress("".join(f"{line}\n" for line in named).encode(), mtime=0)


def find_whole_end(path: Path) -> float:
    """Return the last second of a recording at which the account of the first GPU is complete.

    While the runner is busy it does not report, and newer readings of NVML have no figures of
    torch's beside them: the pictures of the recording's end would lack these.
    """
    state = WorkbenchState(simulated=scan_recording(path).recording.simulated)
    end = 0.0
    for event in read_events(path):
        state.publish(decode_event(event))
        sample = state.machine.sample
        first = next((view for view in state.machine.devices if view.nvml is not None), None)
        if sample is not None and first is not None:
            parts = {part.key for part in account(state.machine, first, sample.at).known}
            end = event.at if {"allocated", "context"} <= parts else end
    return end


def drop_runner(frames: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return a stack, innermost frame first, without the workbench's runner.

    The runner has called the workload's outermost frame; a reader of the example looks for a
    program's own lines. A stack without the workload is returned as it is.
    """
    own = [
        place for place, frame in enumerate(frames) if Path(str(frame["filename"])).name == OWN.name
    ]
    return frames[: own[-1] + 1] if own else frames


def cleaned_snapshot(made: Path, folder: Path) -> bytes:
    """Return the snapshot, compressed, with stacks that begin in the workload."""

    def neutral(value: object) -> object:
        if isinstance(value, dict):
            return {
                key: neutral(drop_runner(item) if key == "frames" else item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [neutral(item) for item in value]
        if isinstance(value, tuple):
            return tuple(neutral(item) for item in value)
        return _neutral(value, folder) if isinstance(value, str) else value

    with made.open("rb") as file:
        found = pickle.load(file)
    return gzip.compress(pickle.dumps(neutral(found)), mtime=0)


def main() -> None:
    """Record, and put both files in their place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=PLACE, help="folder of both files")
    for name, workload in (("--step", WIN), ("--convolution", CONVOLUTION)):
        parser.add_argument(
            name, type=json.loads, default={}, help=f"parameters of {workload}, as JSON"
        )
    parser.add_argument(
        "--flag",
        type=parse_flag_setting,
        default=("cudnn.benchmark", (False, True)),
        metavar="F=A,B",
        help="the flag that pays there, with its two settings (default: cudnn.benchmark=off,on)",
    )
    arguments = parser.parse_args()
    into: Path = arguments.into
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["GPU_WORKBENCH_STATE"] = str(folder / "state")
        os.environ["GPU_WORKBENCH_CONFIG"] = str(folder / "config.toml")
        os.environ[VARIABLE] = str(folder / "memory.pickle")
        # The screen and the monitor then have a core of their own, and disturb no timing.
        os.environ["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) - 1))
        made, snapshot = folder / DEMO, Path(os.environ[VARIABLE])
        with gpus() as simulated:
            asyncio.run(
                record(
                    made,
                    folder,
                    snapshot,
                    arguments.step,
                    arguments.convolution,
                    arguments.flag,
                    simulated=simulated,
                )
            )
        written = {
            into / DEMO: cleaned_recording(made, folder),
            into / DEMO_SNAPSHOT: cleaned_snapshot(snapshot, folder),
        }
    for path, content in written.items():
        path.write_bytes(content)
        sys.stdout.write(f"{path}: {len(content)} bytes\n")


if __name__ == "__main__":
    main()
