"""The private folder through which a worker and its ranks speak. No torch.

torchrun closes what its ranks could inherit, so they are given named pipes: one for each rank's
lines, and the hangup pipe, which the worker holds open for as long as it lives. A rank that reads
its end ends itself, however the worker came to end and wherever the rank was waiting.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path

from workloads import wire
from workloads.ranks.messages import Order

PREFIX = "gpu-workbench-ranks-"
VARIABLE = "GPU_WORKBENCH_RANKS"
"""The environment variable that tells a rank where the folder is."""


class Folder:
    """The names of what lies in it; the same for the worker and for its ranks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.order = path / "order.json"
        self.hangup = path / "hangup"
        self.cancel = path / "cancel"
        """There once the run is to end."""
        self.torchrun_words = path / "torchrun.err"

    def events(self, local_rank: int) -> Path:
        """The pipe for the lines of one rank."""
        return self.path / f"events.{local_rank}"

    def words(self, local_rank: int) -> Path:
        """What one rank wrote to its stdout and stderr."""
        return self.path / f"rank.{local_rank}.err"


def create(ranks: int, order: Order) -> Folder:
    """Make a folder that nobody else can read.

    Raises:
        OSError: there is no room for it.
    """
    _sweep()
    folder = Folder(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")))
    folder.order.write_bytes(wire.encode(order))
    os.mkfifo(folder.hangup, 0o600)
    for local_rank in range(ranks):
        os.mkfifo(folder.events(local_rank), 0o600)
    return folder


def _sweep() -> None:
    """Remove the folders of workers that were killed before they could do it."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, OSError):
            # Not one of ours, or of somebody else's worker that lives.
            continue


def hold_hangup_pipe(folder: Folder) -> int:
    """The worker's end of the hangup pipe, a descriptor to close when the ranks are to end."""
    # A pipe can be opened for writing only while somebody has it open for reading.
    reading = os.open(folder.hangup, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(folder.hangup, os.O_WRONLY)
    os.close(reading)
    return writing


def end_on_hangup(folder: Folder) -> None:
    """End this process, and those it started, when the worker's end of the hangup pipe closes."""
    reading = os.open(folder.hangup, os.O_RDONLY | os.O_NONBLOCK)

    def watch() -> None:
        try:
            # A pipe that was never written to reads as ended at once where nobody holds it.
            os.read(reading, 1)
        except BlockingIOError:
            os.set_blocking(reading, True)
            os.read(reading, 1)
        if os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="hangup", daemon=True).start()
