"""Make the recording that comes with the program: what ``gpu-workbench replay --demo`` plays.

Its GPUs are scripted, for it shall play the same everywhere and claim nothing of any hardware: a
library in NVML's place makes figures up, and the devices and the driver are named "scripted". The
workloads are truly run and timed, on the CPU of the machine that this is run on.

Run in the project's environment, on a quiet Linux machine with a C compiler:
``python docs/demo_recording.py``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.nvml.fixtures import ScriptedNvml, build_library  # noqa: E402 (once the path is right)
from tests.nvml.scenario import Scenario, busy_box  # noqa: E402
from tui.cli.commands.replay import DEMO  # noqa: E402
from tui.devices.messages import Sample  # noqa: E402
from tui.recordings.recorder import Recorder  # noqa: E402
from tui.recordings.redaction import Redaction  # noqa: E402
from tui.session.session import Session  # noqa: E402

PLACE = ROOT / "tui" / "recordings" / DEMO
TITLE = "the GPUs are scripted, no hardware was there; the workloads were run and timed on a CPU"
WORKLOADS = ("transfer", "matmul", "tf32", "conv2d", "mlp_training")
GPUS = 4
LAST_S = 8.0
"""How long it goes on when all is done, so that the end can be looked at."""


def scenario() -> Scenario:
    """A busy box whose devices cannot be taken for any that exist."""
    box = busy_box(GPUS)
    devices = (replace(device, name="scripted GPU") for device in box.devices)
    return replace(box, driver="scripted").with_devices(*devices)


async def play(session: Session) -> None:
    """What happens in it."""
    changed = asyncio.Event()
    session.subscribe(lambda _parts: changed.set())

    async def until(holds: Callable[[], bool]) -> None:
        while not holds():
            changed.clear()
            await changed.wait()

    def seen(sample: Sample | None) -> bool:
        return sample is not None and len(sample.devices) == GPUS

    store = session.store
    await until(lambda: store.runner.status == "ready" and seen(store.sample))
    session.select_device(store.devices[1].key)
    session.run([info.name for info in store.catalogue if info.name in WORKLOADS], ["cpu"], "quick")
    await until(lambda: not store.pending())
    session.set_flag("mkldnn.enabled", False)
    await until(lambda: not store.pending())
    await asyncio.sleep(LAST_S)


async def record(path: Path) -> None:
    """Run the session into a file that is not there yet."""
    session = Session(recorder=Recorder(path, Redaction(), TITLE))
    await session.start()
    try:
        await play(session)
    finally:
        await session.stop()


def main() -> None:
    """Record, and put it in its place."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        library = build_library(folder)
        os.environ.update(ScriptedNvml(library, folder).env(scenario()))
        os.environ["GPU_WORKBENCH_STATE"] = str(folder / "state")
        os.environ["GPU_WORKBENCH_CONFIG"] = str(folder / "config.toml")
        made = folder / DEMO
        asyncio.run(record(made))
        PLACE.write_bytes(made.read_bytes())
    sys.stdout.write(f"{PLACE}: {PLACE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
