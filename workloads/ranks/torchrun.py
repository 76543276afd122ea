"""The command of torchrun, its output, and the messages to and from its ranks."""

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
from workloads.declare.user_workloads import SourceFile
from workloads.declare.workload import RANK_PARAMETERS, ParameterError, Skip
from workloads.protocol import wire
from workloads.protocol.messages import VERSION, Finished, Measured, Meeting, Progress, Run
from workloads.protocol.process import Channel, describe_exit_code
from workloads.protocol.results import RunResult, Setting

CPU_RANKS = 2
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SHUTDOWN_S = 5
"""torchrun's grace for its ranks between SIGTERM and SIGKILL; its own default is 30."""


@dataclass(frozen=True, slots=True)
class RankLayout:
    """The number of processes, and their meeting place."""

    ranks: int
    """Number of processes on this host."""
    hosts: int
    rendezvous: str
    wait_s: int
    """Seconds to wait for the other hosts."""
    meeting: str
    """The name of this meeting; hosts with a different request do not join it."""
    place: Meeting | None = None
    """The meeting place as this host sees it; ``None`` if only ``rendezvous`` is known."""

    @property
    def on_loopback(self) -> bool:
        """Return whether every host is this one, further simulated hosts included."""
        host, _, _ = self.rendezvous.rpartition(":")
        return self.hosts == 1 or host in LOOPBACK


def layout(request: Run, device_type: str, gpus: int) -> RankLayout:
    """Read the layout from a request with complete parameters.

    Args:
        request: the run.
        device_type: cpu or cuda.
        gpus: number of GPUs that torch sees on this host.

    Raises:
        Skip: this host has too few GPUs.
        ParameterError: several hosts, and no meeting place.
    """
    requested, hosts = _number(request, "ranks"), _number(request, "hosts")
    place = request.meeting
    rendezvous = place.endpoint if place else str(request.parameters["rendezvous"])
    if hosts > 1 and not rendezvous:
        raise ParameterError(
            f"{request.workload}: hosts={hosts} needs rendezvous=HOST:PORT, a free port of one of "
            "them that all can reach"
        )
    ranks = requested or (CPU_RANKS if device_type == "cpu" else gpus)
    if device_type == "cuda" and ranks > gpus:
        raise Skip(f"{ranks} ranks need {ranks} GPUs on this host, torch sees {gpus}")
    if not requested and ranks * hosts < 2:
        raise Skip(f"needs 2 GPUs: torch sees {gpus}, and a rank has nobody to speak to")
    wait_s = _number(request, "wait_s")
    return RankLayout(ranks, hosts, rendezvous, wait_s, _name_meeting(request), place)


def _number(request: Run, name: str) -> int:
    return int(request.parameters[name])


def _name_meeting(request: Run) -> str:
    local = {"ranks", "rendezvous", "wait_s"}
    own = {key: value for key, value in request.parameters.items() if key not in local}
    kind = request.device.partition(":")[0]
    agreed = [
        VERSION,
        request.workload,
        kind,
        own,
        request.flags,
        request.budget,
        request.time_only,
    ]
    text = json.dumps(agreed, sort_keys=True)
    return f"{request.workload}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def drop_rank_parameters(parameters: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the parameters of the workload's own function."""
    rank_parameters = {parameter.name for parameter in RANK_PARAMETERS}
    return {name: value for name, value in parameters.items() if name not in rank_parameters}


def command(planned: RankLayout) -> list[str]:
    """Return the command for torchrun, which starts the ranks, with this Python."""
    # Started through our own module, so that the kernel ends torchrun with the worker.
    words = [sys.executable, *START, "torchrun", str(os.getpid())]
    words += [f"--nnodes={planned.hosts}", f"--nproc-per-node={planned.ranks}"]
    words += ["--max-restarts=0"]
    if planned.hosts == 1:
        words += ["--standalone"]
    else:
        limits = f"join_timeout={planned.wait_s},read_timeout={planned.wait_s}"
        if planned.place is not None:
            # torchrun would look the host's own name up, which may stand for loopback.
            limits += f",is_host={str(planned.place.serves).lower()}"
        words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={planned.rendezvous}"]
        words += [f"--rdzv-id={planned.meeting}", f"--rdzv-conf={limits}"]
    if planned.on_loopback:
        # Otherwise the ranks use this host's full name, which not every machine can resolve.
        words += ["--local-addr=127.0.0.1"]
    elif planned.place is not None:
        words += [f"--local-addr={planned.place.address}"]
    return [*words, *START, "rank"]


def environment(planned: RankLayout, cores: int) -> dict[str, str]:
    """Return the environment variables to add for torchrun and the ranks.

    Args:
        planned: the layout.
        cores: number of cores for this process, divided among the ranks.
    """
    added = {
        "OMP_NUM_THREADS": str(max(1, cores // planned.ranks)),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(SHUTDOWN_S),
    }
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    if planned.on_loopback and loopback is not None:
        added["GLOO_SOCKET_IFNAME"] = loopback
    elif planned.place is not None and planned.place.interface:
        # gloo would use the address of the host's own name.
        added["GLOO_SOCKET_IFNAME"] = planned.place.interface
    return {name: value for name, value in added.items() if name not in os.environ}


_FAILURE = re.compile(r"rank\s*:\s*(\d+) \(local_rank: (\d+)\)\s+exitcode\s*:\s*(-?\d+)")


def exits(output: str) -> dict[int, int]:
    """Return the exit code of each local rank that torchrun names as failed; -N for signal N."""
    return {int(local): int(code) for _, local, code in _FAILURE.findall(output)}


def describe_rank_exit(code: int | None) -> str:
    """Describe the end of a rank that sent no message."""
    if code is None:
        return "it ended without a word"
    return describe_exit_code(code)


def explain_no_start(planned: RankLayout, output: str) -> tuple[str, bool]:
    """Explain in one line why no rank started, and return whether the line is complete.

    Args:
        planned: the layout.
        output: torchrun's output.
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
    """Return the reason that the ranks did not meet, with a remedy."""
    if planned.hosts == 1:
        return "the ranks did not meet in time: the machine may be overloaded; run it again"
    return (
        f"{planned.hosts} hosts did not meet at {planned.rendezvous} within {planned.wait_s} s: "
        "start the same run with the same settings on each, and see that no other program holds "
        "the port"
    )


@dataclass(frozen=True, slots=True)
class Order:
    """Every rank's task; the worker writes it into the folder shared with the ranks."""

    request: Run
    source: SourceFile | None
    """File that declares the workload; ``None`` for one in the catalogue."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A rank has met the others."""

    rank: int
    world: int
    pid: int
    host: str
    backend: str
    threads: int
    """Number of torch's threads in this rank."""
    device: str
    """The rank's device."""


KINDS = (Joined, Progress, Measured, Finished)
PREFIX = "gpu-workbench-ranks-"
VARIABLE = "GPU_WORKBENCH_RANKS"
"""The environment variable with the folder's path for the ranks."""


class RanksFolder:
    """Names in the shared folder; the same for the worker and for its ranks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.order = path / "order.json"
        self.hangup = path / "hangup"
        self.cancel = path / "cancel"
        """Exists once the run must end."""
        self.torchrun_output = path / "torchrun.err"

    def events(self, local_rank: int) -> Path:
        """Return the path of one rank's pipe."""
        return self.path / f"events.{local_rank}"

    def output(self, local_rank: int) -> Path:
        """Return the path of one rank's stdout and stderr."""
        return self.path / f"rank.{local_rank}.err"


class Rank:
    """Messages received from one rank of this host."""

    def __init__(self, folder: RanksFolder, local_rank: int) -> None:
        self.local_rank = local_rank
        reading = os.open(folder.events(local_rank), os.O_RDONLY | os.O_NONBLOCK)
        # Open until the rank itself has the other end; without a writer its pipe would read as
        # ended.
        self._writing: int | None = os.open(folder.events(local_rank), os.O_WRONLY)
        self.channel = Channel(reading, -1, KINDS)
        self.joined: Joined | None = None
        self.progress: Progress | None = None
        self.measured: RunResult | None = None
        self.finished: RunResult | None = None

    def read(self) -> None:
        """Read the rank's messages."""
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
        """Close our writing end, so that the pipe ends with the rank."""
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def close(self) -> None:
        """Close this process's ends of the rank's pipe."""
        self.expect_end()
        os.close(self.channel.reading)


def create_folder(ranks: int, order: Order) -> RanksFolder:
    """Create a folder that no other user can read.

    Raises:
        OSError: the folder cannot be created.
    """
    _sweep()
    folder = RanksFolder(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")))
    folder.order.write_bytes(wire.encode(order))
    os.mkfifo(folder.hangup, 0o600)
    for local_rank in range(ranks):
        os.mkfifo(folder.events(local_rank), 0o600)
    return folder


def _sweep() -> None:
    """Remove the folders of killed workers."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, OSError):
            # Not one of ours, or one of another worker that is alive.
            continue


def open_hangup_pipe(folder: RanksFolder) -> int:
    """Open the worker's end of the hangup pipe; closing it ends the ranks."""
    # A pipe can be opened for writing only while it has a reader.
    reading = os.open(folder.hangup, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(folder.hangup, os.O_WRONLY)
    os.close(reading)
    return writing


def end_on_hangup(folder: RanksFolder) -> None:
    """End this process and its children when the worker's end of the hangup pipe closes."""
    reading = os.open(folder.hangup, os.O_RDONLY | os.O_NONBLOCK)

    def watch() -> None:
        try:
            # A pipe without a writer reads as ended at once, if it was never written to.
            os.read(reading, 1)
        except BlockingIOError:
            os.set_blocking(reading, True)
            os.read(reading, 1)
        if os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="hangup", daemon=True).start()
