"""Out of memory: caught, explained, and recovered from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

MIB = 2**20
TOO_MUCH = 2**52
"""Bytes: 4 PiB are beyond the address space of today's processors, so that the request is refused
at once. A request that the kernel grants and cannot keep would call its out-of-memory killer."""

PIECES = (
    (r"Tried to allocate [\d.]+ \w+", "the one request that failed, not all that you use"),
    (r"total capac\w+ of [\d.]+ \w+", "the device's memory"),
    (r"of which [\d.]+ \w+ is free", "what nobody holds; other programs share the device"),
    (r"[\d.]+ \w+ allowed", "the share that set_per_process_memory_fraction leaves"),
    (
        r"this process has [\d.]+ \w+ memory in use",
        "all of this process: tensors, cache, and the CUDA context, which torch does not count",
    ),
    (
        r"[\d.]+ \w+ is allocated by PyTorch",
        "live tensors, and cuBLAS's workspaces: free some or take less",
    ),
    (
        r"[\d.]+ \w+ is reserved by PyTorch but unallocated",
        "the cache; where it is large, it lies in pieces too small for the request",
    ),
    (
        r"expandable_segments:True",
        "lets segments grow in place of lying apart: PYTORCH_ALLOC_CONF, set before the start",
    ),
    (r"you tried to allocate \d+ bytes", "the one request that failed (CPU)"),
    (r"Error code 12", "ENOMEM: the kernel refused to map so much"),
)
"""Pieces of the texts that torch raises, on CUDA and on the CPU, and what each tells."""


def explained(text: str) -> list[str]:
    """A line for each piece of an out-of-memory text that is known, in the text's order."""
    found = [(match, meaning) for pattern, meaning in PIECES if (match := re.search(pattern, text))]
    found.sort(key=lambda item: item[0].start())
    return [f"'{match.group()}': {meaning}" for match, meaning in found]


@workload(
    group="memory",
    title="out of memory, and back",
    about="A step that asks for more than there can be. torch raises OutOfMemoryError on CUDA and "
    "a plain RuntimeError on the CPU, and the process lives on. Timed is the recovery: leave the "
    "except block, empty the cache, go on with less. The request is one that no machine can grant, "
    "so that nothing else comes into need.",
    look_for="The trap: while the exception is kept (as e in a list, a logger, a debugger), its "
    "traceback holds the frames and they hold the step's tensors, so a second try fails like the "
    "first. Memory before and after recovery is equal (a heap may keep a few KiB of Python's own). "
    "The log explains the error piece by piece.",
)
def out_of_memory(
    on: Place,
    mib: Annotated[int, whole(1, 16_384, "tensors of the step that fails, MiB")] = 64,
) -> Case:
    import torch

    on.require((mib + 1) * MIB, f"a step's tensors of {mib} MiB")
    numbers = mib * MIB // 4
    exhausted = torch.OutOfMemoryError if on.type == "cuda" else RuntimeError

    def step(size: int) -> torch.Tensor:
        activations = torch.ones(numbers, device=on.device)
        result = torch.empty(size, dtype=torch.uint8, device=on.device)
        del activations
        return result

    def timed() -> torch.Tensor:
        try:
            return step(TOO_MUCH)
        except exhausted:
            pass  # go on outside: in here the exception still holds the step's tensors
        on.empty_cache()
        return step(MIB)

    def study(found: Study) -> None:
        on.empty_cache()
        stairs = found.staircase("stairs", "memory through the failure")
        before = stairs("before")
        kept: list[BaseException] = []
        try:
            step(TOO_MUCH)
        except exhausted as error:
            kept.append(error)
        pinned = stairs("failed, exception kept")
        text = str(kept[0])
        name = type(kept[0]).__name__
        kept.clear()
        free = stairs("exception let go")
        on.empty_cache()
        after = stairs("cache emptied")
        again = step(MIB)
        found.figure("goes_on_with", float(again.numel()), "byte", "granted after the failure")
        del again
        found.say(f"{name}: {text}")
        for line in explained(text):
            found.say(f"  {line}")
        allocated = (before.allocated, pinned.allocated, free.allocated, after.allocated)
        pinned_about = "held by the traceback of the exception that was kept"
        after_about = "held more than before, after letting go and emptying the cache"
        if None in allocated:
            reason = "this device does not tell what is allocated"
            found.absent("pinned_by_the_traceback", reason, "byte", pinned_about)
            found.absent("left_after_recovery", reason, "byte", after_about)
            return
        first, second, third, fourth = (float(value or 0) for value in allocated)
        found.figure("pinned_by_the_traceback", second - third, "byte", pinned_about)
        found.figure("left_after_recovery", max(0.0, fourth - first), "byte", after_about)

    return Case(timed, clock="wall", study=study)
