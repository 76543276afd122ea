"""How torchrun is called, what its output means, and how its ranks are told and heard."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads import START
from workloads.declare.workload import RANK_PARAMETERS, ParameterError, Skip
from workloads.protocol import wire
from workloads.protocol.messages import VERSION, Finished, Measured, Progress, Run
from workloads.protocol.process import Channel, signal_in_words
from workloads.protocol.results import RunResult, Setting

CPU_RANKS = 2
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SHUTDOWN_S = 5
"""What torchrun gives its ranks between SIGTERM and SIGKILL; its own default is 30."""


@dataclass(frozen=True, slots=True)
class RankLayout:
    """How many processes, and where they meet."""

    ranks: int
    """Processes that run on this host."""
    hosts: int
    rendezvous: str
    wait_s: int
    """For the other hosts."""
    meeting: str
    """The name of this meeting: hosts that were asked for something else do not join it."""

    @property
    def on_loopback(self) -> bool:
        """Every rank is on this host, or its other hosts are meant to be."""
        host, _, _ = self.rendezvous.rpartition(":")
        return self.hosts == 1 or host in LOOPBACK


def layout(request: Run, device_type: str, gpus: int) -> RankLayout:
    """Read the layout out of a request whose parameters are complete.

    Args:
        request: the run.
        device_type: cpu or cuda.
        gpus: that torch sees on this host.

    Raises:
        Skip: this host has too few GPUs.
        ParameterError: several hosts, and no place to meet.
    """
    asked, hosts = _number(request, "ranks"), _number(request, "hosts")
    rendezvous = str(request.parameters["rendezvous"])
    if hosts > 1 and not rendezvous:
        raise ParameterError(
            f"{request.workload}: hosts={hosts} needs rendezvous=HOST:PORT, a free port of one of "
            "them that all can reach"
        )
    ranks = asked or (CPU_RANKS if device_type == "cpu" else gpus)
    if device_type == "cuda" and ranks > gpus:
        raise Skip(f"{ranks} ranks need {ranks} GPUs on this host, torch sees {gpus}")
    if not asked and ranks * hosts < 2:
        raise Skip(f"needs 2 GPUs: torch sees {gpus}, and a rank has nobody to speak to")
    return RankLayout(ranks, hosts, rendezvous, _number(request, "wait_s"), _meeting(request))


def _number(request: Run, name: str) -> int:
    return int(request.parameters[name])


def _meeting(request: Run) -> str:
    local = {"ranks", "rendezvous", "wait_s"}
    own = {key: value for key, value in request.parameters.items() if key not in local}
    kind = request.device.partition(":")[0]
    said = [VERSION, request.workload, kind, own, request.flags, request.budget, request.time_only]
    text = json.dumps(said, sort_keys=True)
    return f"{request.workload}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def drop_rank_parameters(parameters: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the parameters that the workload's own function takes."""
    ours = {parameter.name for parameter in RANK_PARAMETERS}
    return {name: value for name, value in parameters.items() if name not in ours}


def command(planned: RankLayout) -> list[str]:
    """Return the command that starts torchrun, which starts the ranks, with this Python."""
    # Through our own start, so that the kernel ends torchrun with the worker.
    words = [sys.executable, *START, "torchrun", str(os.getpid())]
    words += [f"--nnodes={planned.hosts}", f"--nproc-per-node={planned.ranks}"]
    words += ["--max-restarts=0"]
    if planned.hosts == 1:
        words += ["--standalone"]
    else:
        limits = f"join_timeout={planned.wait_s},read_timeout={planned.wait_s}"
        words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={planned.rendezvous}"]
        words += [f"--rdzv-id={planned.meeting}", f"--rdzv-conf={limits}"]
    if planned.on_loopback:
        # Else the ranks look for this host by its full name, which not every box can resolve.
        words += ["--local-addr=127.0.0.1"]
    return [*words, *START, "rank"]


def environment(planned: RankLayout, cores: int) -> dict[str, str]:
    """Return the environment variables to add for torchrun and the ranks.

    Args:
        planned: the layout.
        cores: that this process may use; they are divided among the ranks.
    """
    added = {
        "OMP_NUM_THREADS": str(max(1, cores // planned.ranks)),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(SHUTDOWN_S),
    }
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    if planned.on_loopback and loopback is not None:
        added["GLOO_SOCKET_IFNAME"] = loopback
    return {name: value for name, value in added.items() if name not in os.environ}


_FAILURE = re.compile(r"rank\s*:\s*(\d+) \(local_rank: (\d+)\)\s+exitcode\s*:\s*(-?\d+)")


def exits(output: str) -> dict[int, int]:
    """Return the exit code of each local rank that torchrun names as failed; -N for signal N."""
    return {int(local): int(code) for _, local, code in _FAILURE.findall(output)}


def exit_in_words(code: int | None) -> str:
    """How a rank ended that said nothing itself."""
    if code is None:
        return "it ended without a word"
    return signal_in_words(-code) if code < 0 else f"exit status {code}"


def explain_no_start(planned: RankLayout, output: str) -> tuple[str, bool]:
    """Why no rank came up, in one line, and whether that says it all.

    Args:
        planned: the layout.
        output: what torchrun wrote.
    """
    if "RendezvousTimeoutError" in output:
        return explain_no_meeting(planned), True
    if "RendezvousConnectionError" in output:
        return (
            f"no rendezvous at {planned.rendezvous}: no host serves it, or another program holds "
            "the port; name a free port of one of the hosts that all can reach"
        ), True
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"torchrun did not start the ranks: {lines[-1] if lines else 'it said nothing'}", False


def explain_no_meeting(planned: RankLayout) -> str:
    """Return the reason that the ranks did not meet, and what to do."""
    if planned.hosts == 1:
        return "the ranks did not meet in time: the machine may be overloaded; run it again"
    return (
        f"{planned.hosts} hosts did not meet at {planned.rendezvous} within {planned.wait_s} s: "
        "start the same run with the same settings on each, and see that no other program holds "
        "the port"
    )


@dataclass(frozen=True, slots=True)
class Order:
    """What every rank is to run; the worker leaves it in the folder that it shares with them."""

    request: Run
    source: str
    """File that declares the workload; empty for one of the catalogue."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A rank has met the others."""

    rank: int
    world: int
    pid: int
    host: str
    backend: str
    threads: int
    """Of torch in this rank."""
    device: str
    """That it runs on."""


KINDS = (Joined, Progress, Measured, Finished)
PREFIX = "gpu-workbench-ranks-"
VARIABLE = "GPU_WORKBENCH_RANKS"
"""The environment variable that tells a rank where the folder is."""


class RanksFolder:
    """The names of what lies in it; the same for the worker and for its ranks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.order = path / "order.json"
        self.hangup = path / "hangup"
        self.cancel = path / "cancel"
        """There once the run is to end."""
        self.torchrun_output = path / "torchrun.err"

    def events(self, local_rank: int) -> Path:
        """Return the path of the pipe for one rank's lines."""
        return self.path / f"events.{local_rank}"

    def output(self, local_rank: int) -> Path:
        """Return the path of the file with what one rank wrote to its stdout and stderr."""
        return self.path / f"rank.{local_rank}.err"


class Rank:
    """What has come from one rank of this host."""

    def __init__(self, folder: RanksFolder, local_rank: int) -> None:
        self.local_rank = local_rank
        reading = os.open(folder.events(local_rank), os.O_RDONLY | os.O_NONBLOCK)
        # Held until the rank itself holds the other end, or its pipe would read as ended.
        self._writing: int | None = os.open(folder.events(local_rank), os.O_WRONLY)
        self.channel = Channel(reading, -1, KINDS)
        self.joined: Joined | None = None
        self.progress: Progress | None = None
        self.measured: RunResult | None = None
        self.finished: RunResult | None = None

    def take(self) -> None:
        """Take in what the rank has said."""
        for message in self.channel.receive(0.0):
            self.expect_end()
            if isinstance(message, Joined):
                self.joined = message
            elif isinstance(message, Progress):
                self.progress = message
            elif isinstance(message, Measured):
                self.measured = message.result
            elif isinstance(message, Finished):
                self.finished = message.result

    @property
    def failed(self) -> bool:
        return self.finished is not None and self.finished.status not in ("ok", "cancelled")

    def expect_end(self) -> None:
        """From here on the pipe ends with the rank."""
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def close(self) -> None:
        """Close this process's ends of the rank's pipe."""
        self.expect_end()
        os.close(self.channel.reading)


def create_folder(ranks: int, order: Order) -> RanksFolder:
    """Make a folder that nobody else can read.

    Raises:
        OSError: there is no room for it.
    """
    _sweep()
    folder = RanksFolder(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")))
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


def open_hangup_pipe(folder: RanksFolder) -> int:
    """Open the worker's end of the hangup pipe, to be closed when the ranks are to end."""
    # A pipe can be opened for writing only while somebody has it open for reading.
    reading = os.open(folder.hangup, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(folder.hangup, os.O_WRONLY)
    os.close(reading)
    return writing


def end_on_hangup(folder: RanksFolder) -> None:
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
