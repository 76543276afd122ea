"""Make the recording that comes with the program: what ``gpu-workbench replay --demo`` plays.

A story in a minute, with a caption for each scene: idle GPUs, on the last of which another user's
process begins to compute; products in which the GPU wins; a model so small that it loses, with the
width from which on it would not; a flag of cuDNN's that pays off; an evaluation that leaks until
memory runs out, and the verdict on it. A single GPU is timed while the other process pauses. The
figures are those of this machine's GPUs. Where they are simulated (see ``tui/rehearsal/device``),
their times are invented: the recording says so in its first line, and the screens say so as long
as it plays.

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
from tui.recordings import DEMO, DEMO_SNAPSHOT  # noqa: E402
from tui.recordings.lines import GZIP, Scene  # noqa: E402
from tui.recordings.recorder import Recorder, Redaction  # noqa: E402
from tui.rehearsal.device.settings import DeviceSettings, state_folder  # noqa: E402
from tui.runs.session.session import Session  # noqa: E402
from tui.runs.state.events import FlagSet  # noqa: E402
from tui.runs.state.runs import RunState  # noqa: E402
from tui.runs.state.state import WorkbenchState  # noqa: E402
from workloads.protocol.results import Setting  # noqa: E402

PLACE = ROOT / "tui" / "recordings"
OWN = ROOT / "docs" / "demo_workloads.py"
WIN, LOSS = "matmul_shapes", "tiny_model"
"""What a simulated GPU, which computes nothing, can run without a check that says so."""
FLAG = "cudnn.benchmark"
CONVOLUTION = "conv2d"
LEAK = "leaking_evaluation"
VARIABLE = "DEMO_SNAPSHOT"
"""Names the snapshot for ``demo_workloads.py``, which is not imported: the runner reads it, and the
catalogue has to be alone here."""
LAST = "inference_modes"
LARGE = {"batch": 4096, "width": 4096, "depth": 16}
"""Its parameters at the end, so that what it holds can be seen in the bar."""
IDLE_S, READ_S, LAST_S = 2.0, 2.5, 8.0
"""Seconds of the idle machine, of each result, and of the verdict at the end."""
LEAST_WIN = 5
"""Speed-up from which the work is called large. An H100's was 8.6 over 16 cores of a Xeon."""
SETTINGS = DeviceSettings(devices=2, total_mib=24_576, name="simulated")
NEIGHBOUR = """
import sys, time, torch
device = f"cuda:{torch.cuda.device_count() - 1}"
torch.cuda.set_device(device)
kept = torch.empty(torch.cuda.mem_get_info()[1] // 4, dtype=torch.uint8, device=device)
one = torch.randn(4096, 4096, device=device)
while True:
    for _ in range(10):
        one = torch.tanh(one @ one)
    torch.cuda.synchronize()
    time.sleep(0.1)
"""
"""What another user's process does: one that this program has not started."""


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


@contextmanager
def neighbour(folder: Path) -> Iterator[None]:
    """Another process on the last GPU, which has another parent than this program."""
    script, pid = folder / "train.py", folder / "neighbour"
    script.write_text(NEIGHBOUR)
    # The shell ends at once, so that the process has no ancestor of ours.
    line = f'"{sys.executable}" "{script}" & echo $! > "{pid}"'
    subprocess.run(["sh", "-c", line], check=True, start_new_session=True)
    try:
        yield
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


async def play(
    session: Session, folder: Path, snapshot: Path, convolution: Mapping[str, Setting]
) -> None:
    """Run the scenes of the recording."""

    async def show(words: str, workload: str = "", tab: str = "workbench") -> None:
        session.state.publish(Scene(words, tab, workload))
        await asyncio.sleep(READ_S)

    changed = asyncio.Event()
    session.state.bus.on_change(lambda _parts: changed.set())

    async def until(holds: Callable[[WorkbenchState], bool]) -> None:
        while not holds(session.state):
            changed.clear()
            await changed.wait()

    def settled(state: WorkbenchState) -> bool:
        return not state.runs.pending()

    await until(lambda state: state.runs.runner.status == "ready")
    gpus = [view for view in session.state.machine.devices if view.nvml is not None]
    alone = len(gpus) == 1
    session.select_device(gpus[0].key)
    await show(f"An idle machine with {'a GPU' if alone else f'{len(gpus)} GPUs'}")
    await asyncio.sleep(IDLE_S)
    with ExitStack() as others:
        others.enter_context(neighbour(folder))
        await until(_computes)
        await show(f"Another user's training starts on the {'' if alone else 'last '}GPU")
        if alone:
            others.close()
            await until(lambda state: not _computes(state))
            await show("It ends: the GPU is free")
        session.run([WIN], ["cpu", "cuda:0"], "quick")
        await show("Matrix products: how much faster is the GPU?", WIN)
        await until(settled)
        win = _ratio(session.state, WIN)
        _require(win > LEAST_WIN, f"the GPU wins by {win:.1f}x alone")
        await show(f"The GPU is {win:.0f}x as fast: this work is large", WIN)
        session.run([LOSS], ["cpu", "cuda:0"], "quick")
        await show("A tiny model: does the GPU still win?", LOSS)
        await until(settled)
        loss = 1 / _ratio(session.state, LOSS)
        _require(loss > 1.2, f"the tiny model takes {loss:.1f}x the time on the GPU alone")
        await show(f"It loses by {loss:.1f}x: launching takes longer than computing", LOSS)
        await show("Its sweep over widths says from where on the GPU is ahead", LOSS)
        session.set_parameters(CONVOLUTION, dict(convolution))
        session.state.publish(FlagSet(FLAG, True))
        session.here.request_comparison(CONVOLUTION, "cuda:0", FLAG, (False, True), budget="quick")
        await show("cuDNN may search for the fastest convolution: does that pay?", CONVOLUTION)
        await until(settled)
        verdicts = [each.comparison for each in session.state.runs.comparisons.values()]
        pays = all(each and each.verdict == "faster" for each in verdicts)
        await show(
            "It pays: the verdict has an interval, and the calls to break even"
            if pays
            else "It does not pay here: the verdict has an interval",
            CONVOLUTION,
        )
        if alone:
            others.enter_context(neighbour(folder))
        session.run([LEAK], ["cuda:0"], "quick")
        await show("A training that leaks: each batch keeps its graph", LEAK)
        await until(settled)
        if not snapshot.exists():
            raise SystemExit(f"{LEAK} has not run out of memory: {session.state.log.lines}")
        session.set_parameters(LAST, dict(LARGE))
        session.run([LAST], ["cuda:0"], "normal")
        await show("It ran out of memory. Why? The verdict names the line", tab="snapshot")
        await until(lambda state: any(_is_measured(run) for run in state.runs.book.values()))
        await until(_computes)
        await asyncio.sleep(LAST_S)


def _require(confirmed: bool, otherwise: str) -> None:
    """Check that what was measured is what the story tells.

    Raises:
        SystemExit: it is not.
    """
    if not confirmed:
        raise SystemExit(f"{otherwise}: record again on a quiet machine")


def _ratio(state: WorkbenchState, workload: str) -> float:
    """Return the CPU's time over the GPU's, of the newest runs of a workload."""
    times = {}
    for run in state.runs.book.values():
        result = run.result
        if run.request.workload == workload and result is not None and result.time is not None:
            times[run.request.device] = result.time.median_s
    return times["cpu"] / times["cuda:0"]


def _computes(state: WorkbenchState) -> bool:
    """Return whether the neighbour on the last GPU computes."""
    devices = state.machine.sample.devices if state.machine.sample else ()
    return bool(devices and devices[-1].processes and devices[-1].utilization.gpu)


def _is_measured(run: RunState) -> bool:
    return run.result is None and run.progress is not None and run.progress.phase == "measuring"


async def record(
    path: Path,
    folder: Path,
    snapshot: Path,
    convolution: Mapping[str, Setting],
    *,
    simulated: bool,
) -> None:
    """Run the session into a file that is not there yet."""
    note = "its GPUs are simulated: memory is torch's own, times are invented" if simulated else ""
    recorder = Recorder(path, Redaction(), note, simulated=simulated)
    session = Session(files=[str(OWN)], attachments=[recorder])
    await session.start()
    try:
        await play(session, folder, snapshot, convolution)
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
    """Return the recording, compressed in one piece."""
    text = zlib.decompress(made.read_bytes(), wbits=GZIP).decode()
    return gzip.compress(_neutral(text, folder).encode(), mtime=0)


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
    parser.add_argument(
        "--convolution", type=json.loads, default={}, help=f"parameters of {CONVOLUTION}, as JSON"
    )
    arguments = parser.parse_args()
    into: Path = arguments.into
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["GPU_WORKBENCH_STATE"] = str(folder / "state")
        os.environ["GPU_WORKBENCH_CONFIG"] = str(folder / "config.toml")
        os.environ[VARIABLE] = str(folder / "memory.pickle")
        made, snapshot = folder / DEMO, Path(os.environ[VARIABLE])
        with gpus() as simulated:
            asyncio.run(record(made, folder, snapshot, arguments.convolution, simulated=simulated))
        written = {
            into / DEMO: cleaned_recording(made, folder),
            into / DEMO_SNAPSHOT: cleaned_snapshot(snapshot, folder),
        }
    for path, content in written.items():
        path.write_bytes(content)
        sys.stdout.write(f"{path}: {len(content)} bytes\n")


if __name__ == "__main__":
    main()
