"""Another process's allocator from outside, against what torch in that process says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tui.allocators import peek
from tui.allocators.layouts import ARRAYS, LAYOUTS, Numbers
from tui.allocators.messages import NOT_USED_YET
from tui.allocators.peek import AllocatorReader, UnreadableError
from tui.allocators.process_files import ProcessFiles

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

AT = 5.0
LINES = """
import json, sys, torch
def said():
    print(json.dumps([torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]))
    sys.stdout.flush()
print("[]", flush=True)
for line in sys.stdin:
    exec(line)
    said()
"""
BUSY = (
    "held = [torch.empty(300 * (i + 1) ** 2, device=f'cuda:{i % torch.cuda.device_count()}')"
    " for i in range(90)]",
    "del held[::3]",
    "torch.cuda.empty_cache()",
    "held += [torch.empty(2**20 + i, device='cuda:0') for i in range(20)]",
    "torch.cuda.reset_peak_memory_stats()",
    "del held[::2]",
    "torch.cuda.reset_accumulated_memory_stats(0)",
    "held += [torch.empty(5000, device='cuda:0') for i in range(20)]",
    "del held",
)
TOO_MUCH = """
try:
    torch.empty(2**50, device="cuda:0")
except torch.OutOfMemoryError:
    pass
"""

Stats = list[dict[str, int]]


class Program:
    """A process that carries out lines of Python and prints torch's own statistics after each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        self.said()

    def said(self) -> Stats:
        assert self._process.stdout is not None
        found: Stats = json.loads(self._process.stdout.readline())
        return found

    def do(self, line: str) -> Stats:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.said()


@contextmanager
def program(**variables: str) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, "-c", LINES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        yield Program(process)
    finally:
        process.kill()
        process.communicate()


def named(numbers: Numbers) -> dict[str, int]:
    """All numbers by the keys of ``memory_stats``."""
    keys = [
        f"{array}.{pool}.{which}"
        for array in ARRAYS
        for pool in ("all", "small_pool", "large_pool")
        for which in ("current", "peak", "allocated", "freed")
    ]
    return dict(zip([*keys, "num_alloc_retries", "num_ooms"], numbers, strict=True))


def read(target: AllocatorReader, ordinal: int) -> dict[str, Any]:
    """Sound numbers of a device; a reset is believed after a few readings."""
    found = None
    for _ in range(10):
        found = found or target.devices[ordinal].read()
    assert found is not None
    return named(found)


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_all_110_numbers_are_those_of_memory_stats(settings: str) -> None:
    compared = 0
    with program(PYTORCH_CUDA_ALLOC_CONF=settings) as running:
        target = AllocatorReader(ProcessFiles(running.pid))
        for line in BUSY:
            stats = running.do(line)
            target.locate()
            for ordinal, expected in enumerate(stats):
                assert read(target, ordinal).items() <= expected.items()
                compared += 110
        assert target.place is not None
        older = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
        assert target.place.layout == LAYOUTS[older]
        target.close()
    print(f"torch {torch.__version__}: {compared} numbers compared, none differs")


def why_not(running: Program) -> str:
    target = AllocatorReader(ProcessFiles(running.pid))
    with pytest.raises(UnreadableError) as refused:
        target.locate()
    target.close()
    return str(refused.value)


def test_the_figures_are_under_the_names_of_memory_stats() -> None:
    with program() as running:
        assert why_not(running) == NOT_USED_YET
        running.do("torch.cuda.init()")
        assert why_not(running) == NOT_USED_YET
        for line in (*BUSY[:2], f"exec({TOO_MUCH!r})"):
            stats = running.do(line)
        target = AllocatorReader(ProcessFiles(running.pid))
        target.locate()
        found = target.read(AT)
        target.close()
    assert len(found.figures) == torch.cuda.device_count()
    for told, expected in zip(found.figures, stats, strict=True):
        assert told.allocated == expected["allocated_bytes.all.current"] > 0
        assert told.allocated_peak == expected["allocated_bytes.all.peak"]
        assert told.reserved == expected["reserved_bytes.all.current"]
        assert told.reserved_peak == expected["reserved_bytes.all.peak"]
        assert told.requested == expected["requested_bytes.all.current"]
        assert told.active == expected["active_bytes.all.current"]
        assert told.inactive_split == expected["inactive_split_bytes.all.current"]
        assert told.alloc_retries == expected["num_alloc_retries"]
        assert told.ooms == expected["num_ooms"]
        assert told.reserved_allocated == expected["reserved_bytes.all.allocated"]
        assert told.reserved_freed == expected["reserved_bytes.all.freed"]
    assert (found.figures[0].ooms, found.figures[0].alloc_retries) == (1, 1)


def test_the_command_ties_each_device_to_nvml_s() -> None:
    with program() as running:
        running.do(BUSY[0])
        command = [sys.executable, "-m", "tui", "watch", "--pid", str(running.pid), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    (one,) = found["processes"]
    assert one["sources"] == ["nvml", "allocator"]
    assert one["torch"] == torch.__version__
    uuids = [
        f"GPU-{torch.cuda.get_device_properties(ordinal).uuid}"
        for ordinal in range(torch.cuda.device_count())
    ]
    assert [each["id"] for each in one["devices"]] == uuids
    for each in one["devices"]:
        assert each["process"] >= each["reserved"] >= each["allocated"] > 0


def test_cuda_malloc_async_is_named() -> None:
    with program(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") as running:
        assert why_not(running) == peek.ASYNC
