"""How torchrun is called, and what its words mean. No torch.

Several hosts meet through torchrun's own rendezvous (the c10d backend): the same command is started
on each, and the first that finds itself at the endpoint serves it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Mapping

from workloads import BOOTSTRAP
from workloads.frozen import frozen
from workloads.inventory import Setting
from workloads.process import signal_in_words
from workloads.protocol import VERSION, Run
from workloads.workload import RANK_PARAMETERS, ParameterError, Skip

CPU_RANKS = 2
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SHUTDOWN_S = 5
"""What torchrun gives its ranks between SIGTERM and SIGKILL; its own default is 30."""


@frozen
class RankLayout:
    """How many processes, and where they meet."""

    ranks: int
    """On this host."""
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


def own_parameters(parameters: Mapping[str, Setting]) -> dict[str, Setting]:
    """Those that the workload's function takes."""
    ours = {parameter.name for parameter in RANK_PARAMETERS}
    return {name: value for name, value in parameters.items() if name not in ours}


def command(planned: RankLayout) -> list[str]:
    """The command that starts torchrun, and it the ranks, with this Python."""
    # Through our own start, so that the kernel ends torchrun with the worker.
    words = [sys.executable, BOOTSTRAP, "torchrun", str(os.getpid())]
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
    return [*words, BOOTSTRAP, "rank"]


def environment(planned: RankLayout, cores: int) -> dict[str, str]:
    """What torchrun and the ranks find set beside what is set already.

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


def exits(words: str) -> dict[int, int]:
    """The exit code of each local rank that torchrun names as failed; negative for a signal."""
    return {int(local): int(code) for _, local, code in _FAILURE.findall(words)}


def exit_in_words(code: int | None) -> str:
    """How a rank ended that said nothing itself."""
    if code is None:
        return "it ended without a word"
    return signal_in_words(-code) if code < 0 else f"exit status {code}"


def no_start(planned: RankLayout, words: str) -> tuple[str, bool]:
    """Why no rank came up, in one line, and whether that says it all.

    Args:
        planned: the layout.
        words: what torchrun wrote.
    """
    if "RendezvousTimeoutError" in words:
        return no_meeting(planned), True
    if "RendezvousConnectionError" in words:
        return (
            f"no rendezvous at {planned.rendezvous}: no host serves it, or another program holds "
            "the port; name a free port of one of the hosts that all can reach"
        ), True
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return f"torchrun did not start the ranks: {lines[-1] if lines else 'it said nothing'}", False


def no_meeting(planned: RankLayout) -> str:
    """That the hosts waited in vain, and what to do."""
    if planned.hosts == 1:
        return "the ranks did not meet in time: the machine may be overloaded; run it again"
    return (
        f"{planned.hosts} hosts did not meet at {planned.rendezvous} within {planned.wait_s} s: "
        "start the same run with the same settings on each, and see that no other program holds "
        "the port"
    )
