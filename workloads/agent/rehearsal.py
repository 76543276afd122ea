"""Measure a rehearsal in its process: exact peaks, the owners of the memory, and host reads.

A rehearsal runs on a simulated GPU, whose kernels compute nothing. After the steps that were asked
for, or at the interpreter's end, the agent writes a snapshot with the owners of the memory, and the
peaks of torch's own counters. Unlike a watched process, a rehearsed one is ended by its agent, and
a warning mode of torch is on in it.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
import warnings
from importlib import import_module
from typing import Any, Callable

from . import FOREACH, READS, REHEARSE
from .agent import FOLDER, KEY, Agent
from .inventory import find_roles

_MOST_READINGS = 64
_MOST_STEP_TIMES = 1000
_MOST_LINES = 100
"""Most lines that are counted one by one."""
_SYNCHRONIZES = "called a synchronizing CUDA operation"
"""torch's text: https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp"""


class HostReads:
    """Counts, by line of the program, how often the host waited for data of the device.

    torch warns about every operation that waits for the device. It is a read if the simulated
    device has copied something to the host meanwhile; other operations wait to copy to the device.
    """

    def __init__(self, torch: Any) -> None:
        self._path, self._offset, self._count = json.loads(os.environ[READS])
        self._before = self._copies()
        self.lines: dict[tuple[str, int, str], int] = {}
        self._show = warnings.showwarning
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mode is a prototype
            torch.cuda.set_sync_debug_mode("warn")
        warnings.filterwarnings("always", message=_SYNCHRONIZES)
        warnings.showwarning = self._apply

    def _copies(self) -> int:
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            return sum(struct.unpack("=%dQ" % self._count, file.read(8 * self._count)))

    def _apply(self, message: Any, *others: Any, **named: Any) -> None:
        if not str(message).startswith(_SYNCHRONIZES):
            self._show(message, *others, **named)
            return
        copies, before = self._copies(), self._before
        self._before = copies
        place = _find_caller() if copies > before else None
        if place is not None and (place in self.lines or len(self.lines) < _MOST_LINES):
            self.lines[place] = self.lines.get(place, 0) + 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines as plain data, in the order of their first read."""
        return [
            dict(filename=filename, line=line, name=name, count=count)
            for (filename, line, name), count in self.lines.items()
        ]


def _find_caller() -> tuple[str, int, str] | None:
    """Return file, line and function of the innermost frame outside Python's and torch's own."""
    libraries = (os.path.dirname(warnings.__file__), FOLDER.rstrip(os.sep))
    frame: Any = sys._getframe(2)
    while frame is not None:
        filename = frame.f_code.co_filename
        packaged = "site-packages" in filename or "dist-packages" in filename
        if not (packaged or filename.startswith((*libraries, "<"))):
            return filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None


class RehearsalAgent:
    """The measurement of one process."""

    def __init__(self, agent: Agent, steps: int) -> None:
        self._agent = agent
        self._steps = steps
        self._times: list[int] = []
        self._memory: list[tuple[int, dict[int, tuple[int, int]]]] = []
        """Steps with the bytes allocated after them and the peak until then, by device."""
        self._reads: HostReads | None = None
        self._written = False
        self._recorded: set[int] = set()
        self._dumped = False

    def count_reads(self) -> None:
        """Start to count the host's reads."""
        self._reads = HostReads(self._agent.torch)

    def after_step(self) -> None:
        """Note the time of a step; after the last one, measure and end the process."""
        if len(self._times) < _MOST_STEP_TIMES:
            self._times.append(time.time_ns() // 1000)
        self._memory.append((self._agent.steps, self._read_memory()))
        if len(self._memory) > _MOST_READINGS:
            # Drop every second reading, but not the newest.
            del self._memory[-2::-2]
        if self._steps and self._agent.steps >= self._steps:
            self.end()

    def _read_memory(self) -> dict[int, tuple[int, int]]:
        cuda, sizes = self._agent.torch.cuda, {}
        for device in range(cuda.device_count()):
            stats = cuda.memory_stats(device)
            peak = stats.get("allocated_bytes.all.peak", 0)
            if peak:
                sizes[device] = stats["allocated_bytes.all.current"], peak
        return sizes

    def end(self) -> None:
        """Measure, and end the process."""
        self.write(stopped=True)
        self._agent.log_event("end", steps=self._agent.steps, ooms=self._agent.ooms, **_NO_ERROR)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # it is closed, or somebody else's
        # The rest of the program would compute with zeros, and save them.
        os._exit(0)

    def write(self, stopped: bool = False) -> None:
        """Write a snapshot and the measurement, once."""
        if self._written or not self._agent.alive:
            return
        self._written = True
        name, why = "rehearsed-%s.pickle" % self._agent.identity, ""
        try:
            self._agent.dump(name, self._complete)
            self._dumped = True
        except Exception as error:
            why = "%s: %s" % (type(error).__name__, str(error)[:500])
        self._agent.log_event(
            "rehearsed",
            steps=self._agent.steps,
            stopped=stopped,
            devices=self._peaks(),
            step_times=self._times,
            step_memory=[
                dict(step=step, device=device, allocated=allocated, peak=peak)
                for step, sizes in self._memory
                for device, (allocated, peak) in sizes.items()
            ],
            reads=[] if self._reads is None else self._reads.rows(),
            snapshot=None if why else name,
            no_snapshot=why,
            compiled=_has_compiled(),
            libraries=_find_versions(),
            architectures=self._agent.torch.cuda.get_arch_list(),
        )

    def _peaks(self) -> list[dict[str, Any]]:
        cuda, peaks = self._agent.torch.cuda, []
        for device in range(cuda.device_count()):
            stats = cuda.memory_stats(device)
            if stats.get("reserved_bytes.all.peak"):
                peaks.append(
                    dict(
                        device=device,
                        requested=stats.get("requested_bytes.all.peak"),
                        allocated=stats["allocated_bytes.all.peak"],
                        reserved=stats["reserved_bytes.all.peak"],
                        recorded=not self._dumped or device in self._recorded,
                    )
                )
        return peaks

    def _complete(self, snapshot: Any) -> None:
        # torch discards the history when a program that records its own ends that recording.
        traces = enumerate(snapshot["device_traces"])
        self._recorded = {device for device, trace in traces if trace}
        torch = self._agent.torch
        snapshot[KEY] = dict(
            roles=[
                dict(device=device, role=role, addresses=addresses)
                for device in range(torch.cuda.device_count())
                for role, addresses in find_roles(torch, device).items()
            ]
        )


_LIBRARIES = (
    "torch",
    "triton",
    "transformers",
    "peft",
    "bitsandbytes",
    "accelerate",
    "diffusers",
    "lightning",
    "pytorch_lightning",
    "deepspeed",
    "torchvision",
    "torchao",
    "timm",
    "trl",
    "flash_attn",
    "xformers",
    "vllm",
    "apex",
    "transformer_engine",
)
"""Modules that decide how much memory a training takes."""


def _find_versions() -> list[dict[str, str]]:
    """Return the versions of the libraries that the program has imported."""
    versions = []
    for name in _LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions.append(dict(name=name, version=str(version)[:100]))
    return versions


def _has_compiled() -> bool:
    """Return whether torch.compile has compiled a graph in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    if not isinstance(counters, dict):
        return False
    stats = counters.get("stats")
    return bool(stats and stats.get("unique_graphs"))


_NO_ERROR = dict(text="", type="", out_of_memory=False)


def begin(agent: Agent, at_end: Callable[[Callable[[], None]], None]) -> None:
    """Start to measure.

    Args:
        agent: the agent of this process, before its end is registered.
        at_end: registers work at the interpreter's end.
    """
    rehearsal = RehearsalAgent(agent, int(os.environ[REHEARSE]))
    agent.after_step = rehearsal.after_step
    agent.end_rehearsal = rehearsal.end
    agent.run_guarded(rehearsal.count_reads)
    at_end(rehearsal.write)
    if os.environ.get(FOREACH) == "0":
        agent.run_guarded(_update_one_by_one)


def _update_one_by_one() -> None:
    """Make optimizers update one tensor after another, unless the program chose otherwise.

    By default they update all tensors in groups, whose temporary memory may not fit.
    """

    def before_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        for group in optimizer.param_groups:
            if group.get("foreach", False) is None and not group.get("fused"):
                group["foreach"] = False

    import_module("torch.optim.optimizer").register_optimizer_step_pre_hook(before_step)
