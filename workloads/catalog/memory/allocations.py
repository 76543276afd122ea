"""What occupies memory, what frees it, and the error when none is left."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

MIB = 2**20
SMALL_MIB = 2
"""Above 1 MiB, so that CUDA's allocator may cut it out of a large cached segment."""


@workload(
    group="memory",
    title="grad, no_grad and inference_mode",
    about="The same forward pass three ways: with gradients enabled, which keeps every activation "
    "for a backward pass that never comes; under torch.no_grad(); and under "
    "torch.inference_mode(), which also leaves out version counters and is what is timed.",
    look_for="The peak memory: the graph's part grows with depth and batch. The times are near one "
    "another where layers are large; small ones gain a little from inference_mode. Its tensors "
    "cannot be saved for a backward pass later: the error is in the log.",
)
def inference_modes(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples")] = 512,
    width: Annotated[int, whole(1, 16_384, "width of the layers")] = 512,
    depth: Annotated[int, whole(1, 256, "layers")] = 12,
) -> Case:
    import torch

    from workloads.declare.place import SEED
    from workloads.scripts.inference_modes import inference, with_grad, without_grad

    activations = depth * batch * width * 4
    on.require(depth * width * width * 4 + 2 * activations, f"the model and {depth} activations")
    torch.manual_seed(SEED)
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).to(on.device).eval()
    inputs = on.randn(batch, width)

    ways = {
        name: partial(run, model, inputs)
        for name, run in {
            "grad": with_grad,
            "no_grad": without_grad,
            "inference_mode": inference,
        }.items()
    }

    def study(study: Study) -> None:
        study.variants("modes", "one forward pass", ways, per_call=(batch, "samples/s"), peaks=True)
        columns = ("mode", "requires_grad", "is_inference", "grad_fn")
        study.table("results", "what comes out of each", *columns)
        for name, way in ways.items():
            result = way()
            facts = (result.requires_grad, result.is_inference(), result.grad_fn is not None)
            study.row("results", name, *("yes" if fact else "no" for fact in facts))
        graph, plain = study.peak(ways["grad"]), study.peak(ways["no_grad"])
        about = "peak with the graph over the peak without"
        if graph is None or plain is None:
            study.absent("cost_of_the_graph", "the device does not report its peaks", "byte", about)
        else:
            study.figure("cost_of_the_graph", float(graph - plain), "byte", about)
        about = f"{depth} activations of {batch} x {width} float32, which the graph holds"
        study.figure("activations", float(activations), "byte", about)
        weight = torch.ones(width, device=on.device, requires_grad=True)
        try:
            (ways["inference_mode"]() * weight).sum().backward()
        except RuntimeError as error:
            study.log_line(f"an inference tensor in training -> RuntimeError: {error}")

    return Case(ways["inference_mode"], item=batch, study=study)


@workload(
    group="memory",
    title="allocate, del, empty_cache",
    about="What each step does to the memory that tensors hold (allocated), that torch holds "
    "(reserved) and that the device or process uses. del gives memory back to torch's cache, not "
    "to the device; empty_cache() returns what is wholly free. On the CPU the C library's heap is "
    "the cache, and malloc_trim() empties it; a tensor of 32 MiB or more would be mapped by itself "
    "and go back to the kernel at del, so there the size is made of pieces of 16 MiB. Timed: a "
    "tensor, or these pieces, made and dropped, from the cache.",
    look_for="After del, allocated falls and reserved stays: nvidia-smi sees no change. On CUDA a "
    "small tensor cut out of the cached segment keeps all of it: empty_cache() then returns "
    "nothing, unless segments are expandable. On the CPU the trim returns free pages around it. "
    "The ways show why there is a cache.",
)
def staircase(
    on: Place,
    mib: Annotated[int, whole(32, 65_536, "size of the large tensor, MiB")] = 128,
) -> Case:
    import torch

    from workloads.scripts.staircase import make_and_drop

    on.require(mib * MIB, f"a tensor of {mib} MiB")
    piece = min(mib, 16) if on.type == "cpu" else mib
    sizes = [min(piece, mib - start) * MIB // 4 for start in range(0, mib, piece)]

    timed = partial(make_and_drop, sizes, on.device)

    def emptied_first() -> None:
        on.empty_cache()
        timed()

    def study(study: Study) -> None:
        on.empty_cache()
        step = study.staircase("stairs", "memory after each step")
        start = step("start")
        tensors = [torch.ones(size, device=on.device) for size in sizes]
        step(f"allocate {mib} MiB")
        del tensors
        cached = step("del")
        if on.type != "cpu":  # a heap may take other free pages for it
            tensors = [torch.ones(size, device=on.device) for size in sizes]
            step("allocate again")
            del tensors
        small = torch.ones(SMALL_MIB * MIB // 4, device=on.device)
        step(f"allocate {SMALL_MIB} MiB")
        on.empty_cache()
        pinned = step("empty_cache")
        del small
        on.empty_cache()
        step("del, empty_cache")
        about = f"still reserved after empty_cache, by a tensor of {SMALL_MIB} MiB"
        _difference(study, "kept_by_the_cache", cached.reserved, start.reserved, "after del")
        _difference(study, "pinned", pinned.reserved, start.reserved, about)
        ways: dict[str, Callable[[], object]] = {
            "after empty_cache": emptied_first,
            "from the cache": timed,
        }
        study.variants("ways", f"make and drop {mib} MiB", ways, clock="wall")

    return Case(timed, clock="wall", byte=mib * MIB, study=study)


def _difference(study: Study, name: str, now: int | None, before: int | None, about: str) -> None:
    if now is None or before is None:
        study.absent(name, "this device does not report what is reserved", "byte", about)
    else:
        study.figure(name, float(now - before), "byte", about)


def largest_free(segments: list[dict[str, Any]], device: int) -> int:
    """Return the bytes of the largest free block within one device's segments.

    Args:
        segments: the result of ``torch.cuda.memory_snapshot()``, which covers all devices.
        device: the device's index.
    """
    return max(
        (
            int(block["size"])
            for segment in segments
            if segment["device"] == device
            for block in segment["blocks"]
            if block["state"] == "inactive"
        ),
        default=0,
    )


@workload(
    group="memory",
    title="free memory in pieces too small to use",
    about="Tensors that live long and tensors that do not, cut in turns out of one cached segment: "
    "when the short-lived ones are gone, half of the segment is free, in pieces that are no longer "
    "neighbours. For comparison, the same tensors with the long-lived ones made first.",
    look_for="Reserved is far above allocated, and still a request of four pieces finds no place "
    "and takes new memory from the device; in the other order it fits. This is what an out of "
    "memory error means by reserved but unallocated; making what stays before what goes "
    "avoids it. With PYTORCH_ALLOC_CONF=expandable_segments:True torch can give back the free "
    "pieces themselves, by empty_cache() or when memory runs out, and map them again side by side.",
    devices=("cuda",),
)
def fragmentation(
    on: Place,
    pieces: Annotated[int, whole(2, 512, "pairs of a tensor that stays and one that goes")] = 16,
    mib: Annotated[int, whole(2, 1024, "size of each, MiB")] = 16,
) -> Case:
    import torch

    from workloads.scripts.fragmentation import in_turns, stays_first

    size = mib * MIB
    total = 2 * pieces * size
    on.require(total + 4 * size, f"{2 * pieces} tensors of {mib} MiB")

    def timed() -> None:
        survivors = in_turns(pieces, size, on.device)
        del survivors

    def segment() -> None:
        """One cached segment that all blocks are cut from."""
        on.empty_cache()
        whole_segment = torch.empty(total, dtype=torch.uint8, device=on.device)
        del whole_segment

    def study(study: Study) -> None:
        study.table(
            "orders", f"after the {pieces} short-lived tensors of {mib} MiB are gone",
            "order", ("allocated", "byte"), ("reserved", "byte"), ("largest free", "byte"),
            ("new for a request of four", "byte"),
        )  # fmt: skip
        for name, make in {"in turns": in_turns, "what stays first": stays_first}.items():
            segment()
            survivors = make(pieces, size, on.device)
            in_use = study.memory_in_use()
            free = largest_free(torch.cuda.memory_snapshot(), on.device.index or 0)
            large = torch.empty(4 * size, dtype=torch.uint8, device=on.device)
            after = study.memory_in_use()
            grown = None
            if in_use.reserved is not None and after.reserved is not None:
                grown = after.reserved - in_use.reserved
            study.row("orders", name, in_use.allocated, in_use.reserved, free, grown)
            del survivors, large
        on.empty_cache()

    return Case(timed, clock="wall", study=study)


TOO_MUCH = 2**52
"""Bytes: 4 PiB exceed the address space of today's processors, so that the request fails at once.
If the kernel granted more than it has, its out-of-memory killer would end the process."""

PIECES = (
    (r"Tried to allocate [\d.]+ \w+", "the one request that failed, not all that you use"),
    (r"total capac\w+ of [\d.]+ \w+", "the device's memory"),
    (r"of which [\d.]+ \w+ is free", "what no program holds; other programs share the device"),
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
"""Parts of torch's out-of-memory texts, on CUDA and on the CPU, each with its explanation."""


def explained(text: str) -> list[str]:
    """Return a line for each known part of an out-of-memory text, in the text's order."""
    explanations = [
        (match, meaning) for pattern, meaning in PIECES if (match := re.search(pattern, text))
    ]
    explanations.sort(key=lambda item: item[0].start())
    return [f"'{match.group()}': {meaning}" for match, meaning in explanations]


@workload(
    group="memory",
    title="out of memory, and back",
    about="A step that requests more memory than there is. torch raises OutOfMemoryError on CUDA "
    "and a plain RuntimeError on the CPU, and the process lives on. Timed is the recovery: leave "
    "the except block, empty the cache, go on with less. The request is one that no machine can "
    "grant, so that no other program runs short of memory.",
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

    from workloads.scripts.out_of_memory import attempt, step

    on.require((mib + 1) * MIB, f"a step's tensors of {mib} MiB")
    numbers = mib * MIB // 4
    exhausted = torch.OutOfMemoryError if on.type == "cuda" else RuntimeError

    def timed() -> torch.Tensor:
        result = attempt(TOO_MUCH, numbers, on.device)
        if result is None:
            on.empty_cache()
            result = step(MIB, numbers, on.device)
        return result

    def study(study: Study) -> None:
        on.empty_cache()
        stairs = study.staircase("stairs", "memory through the failure")
        before = stairs("before")
        errors: list[BaseException] = []
        try:
            step(TOO_MUCH, numbers, on.device)
        except exhausted as error:
            errors.append(error)
        pinned = stairs("failed, exception kept")
        text = str(errors[0])
        name = type(errors[0]).__name__
        errors.clear()
        free = stairs("exception let go")
        on.empty_cache()
        after = stairs("cache emptied")
        again = step(MIB, numbers, on.device)
        study.figure("goes_on_with", float(again.numel()), "byte", "granted after the failure")
        del again
        study.log_line(f"{name}: {text}")
        for line in explained(text):
            study.log_line(f"  {line}")
        allocated = (before.allocated, pinned.allocated, free.allocated, after.allocated)
        pinned_about = "held by the traceback of the exception that was kept"
        after_about = "held more than before, after the exception was dropped and the cache emptied"
        if None in allocated:
            reason = "this device does not report what is allocated"
            study.absent("pinned_by_the_traceback", reason, "byte", pinned_about)
            study.absent("left_after_recovery", reason, "byte", after_about)
            return
        first, second, third, fourth = (float(value or 0) for value in allocated)
        study.figure("pinned_by_the_traceback", second - third, "byte", pinned_about)
        study.figure("left_after_recovery", max(0.0, fourth - first), "byte", after_about)

    return Case(timed, clock="wall", study=study)
