"""Evidence for explaining one failed allocation, collected from a snapshot."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.analysis import DeviceAnalysis
from tui.snapshots.analysis.cause import Figures
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.layers import Categories
from tui.snapshots.analysis.layout import DEFAULT_POOL, Filled, Layout
from tui.snapshots.explain.evidence import Circumstances, Evidence, Growth, Purpose
from tui.snapshots.explain.frames import Frame, classify_frame, goes_through, in_backward
from tui.snapshots.explain.inventory import Inventory, ThreadStack
from tui.snapshots.explain.oom_text import (
    TEXT_ROUNDING,
    OomText,
    choose_process,
    list_other_holders,
)
from tui.snapshots.model.results import Entry, State
from tui.snapshots.model.snapshot import Action, Trace

PoolKind = Literal["CUDA graphs", "MemPool", "private pools"]
LARGE_BLOCK = 0.03
"""Share of the live bytes from which a block of half the request is no coincidence."""
ROUNDED = 512
"""Bytes by which a reported request may exceed its true size."""


def select_python_frames(stack: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return a stack without its C++ frames."""
    return tuple(frame for frame in stack if frame.filename not in ("", "??"))


def classify_pool(
    pool: tuple[int, int], streams: Iterable[int], stacks: Iterable[tuple[Frame, ...]]
) -> PoolKind:
    """Determine the owner of a private pool.

    A capture's own pool has its number first (``c10::cuda::MemPool::graph_pool_handle`` with
    ``is_user_created=false``). A handle shared by graphs and a ``torch.cuda.MemPool`` both have it
    second. They differ in the stacks of their allocations, if these go through torch's CUDA-graph
    files, and in the stream: the default stream cannot be captured.

    Args:
        pool: the pool's two numbers.
        streams: streams of its segments.
        stacks: stacks of its allocations.
    """
    if pool[0]:
        return "CUDA graphs"
    for stack in stacks:
        if goes_through(stack, "/torch/cuda/graphs.py") or goes_through(stack, "cudagraph_trees"):
            return "CUDA graphs"
    return "MemPool" if 0 in streams else "private pools"


def sum_private_cached(
    layout: Layout, stacks: Stacks, need: tuple[int, int]
) -> dict[PoolKind, int]:
    """Return the free bytes of other private pools, by owner."""
    sizes: Counter[PoolKind] = Counter()
    parts: dict[tuple[int, int], list[Filled]] = {}
    for part in layout.filled:
        pool = part.range.pool or DEFAULT_POOL
        if pool not in (DEFAULT_POOL, need):
            parts.setdefault(pool, []).append(part)
    for pool, filled in parts.items():
        streams = {part.range.stream for part in filled}
        used = {block.stack for part in filled for block in part.used}
        kind = classify_pool(pool, streams, (stacks.of(stack) for stack in used if stack > 0))
        sizes[kind] += sum(part.free for part in filled)
    return dict(sizes)


def list_purposes(
    table: Allocations, categories: Categories, stacks: Stacks, event: int
) -> tuple[Purpose, ...]:
    """Return the purposes of the live memory after an event; empty if none are known."""
    sizes: Counter[str] = Counter()
    older: Counter[str] = Counter()
    sites: dict[str, Counter[str]] = {}
    has_stacks = False
    records = any(start >= 0 for start in table.start)
    for row in table.live_at(event):
        category = categories.of(row)
        stack = table.stack[row]
        has_stacks = has_stacks or stack > 0
        sizes[category.name] += table.size[row]
        if records and table.start[row] < 0:
            older[category.name] += table.size[row]
        site = stacks.site(stack)
        if site.kind is not None:
            sites.setdefault(category.name, Counter())[site.label] += table.size[row]
    if not has_stacks:
        return ()
    made = []
    for name, size in sizes.most_common():
        most = sites.get(name, Counter()).most_common(1)
        made.append(Purpose(name, size, *(most[0] if most else ("", 0)), older=older[name]))
    return tuple(made)


_TRAINS = ("gradients", "backward pass", "optimizer state", "optimizer step")


def count_models(table: Allocations, categories: Categories, event: int) -> int:
    """Count the models that are live after an event: a training separates one from the next."""
    training = {stack for stack in set(table.stack) if categories.of_stack(stack).name in _TRAINS}
    trained = sorted(
        start for start, stack in zip(table.start, table.stack, strict=True) if stack in training
    )
    made = (
        table.start[row]
        for row in table.live_at(event)
        if table.start[row] >= 0 and categories.of(row).name == "parameters"
    )
    return len({bisect_left(trained, start) for start in made})


def find_half_block(
    device: DeviceAnalysis, event: int, requested: int, live: int, inventory: Inventory | None
) -> tuple[str, bool]:
    """Find a large live block of exactly half of a request: its line, and if its type is 16-bit."""

    def is_half(size: int) -> bool:
        return size >= LARGE_BLOCK * live and abs(2 * size - requested) < ROUNDED

    for variable in () if inventory is None else inventory.variables:
        if variable.dtype in ("float16", "bfloat16") and is_half(variable.bytes):
            return f"{variable.name} ({variable.dtype})", True
    table = device.allocations
    for row in table.live_at(event):
        if is_half(table.size[row]):
            site = device.stacks.site(table.stack[row])
            if site.kind is not None:
                return site.label, False
    return "", False


def has_history(trace: Trace) -> bool:
    """Return whether allocations were recorded, not just the OOM."""
    return Action.ALLOC in trace.action or Action.FREE_COMPLETED in trace.action


MOST_LOOKED_BACK = 100_000
"""Maximum number of entries before an OOM to search for the call of backward."""


def find_backward_call(trace: Trace, stacks: Stacks, event: int) -> tuple[Frame, ...]:
    """Return the stack of the last backward call before an event, or an empty stack.

    Autograd's thread has no Python stack, but the call itself creates the first gradient in the
    program's thread.
    """
    is_call: dict[int, bool] = {0: False}
    for place in range(event - 1, max(-1, event - MOST_LOOKED_BACK), -1):
        number = trace.stack[place]
        calls = is_call.get(number)
        if calls is None:
            calls = is_call[number] = in_backward(stacks.of(number))
        if calls:
            return select_python_frames(stacks.of(number))
    return ()


def gather_evidence(
    device: DeviceAnalysis,
    state: State,
    entry: Entry,
    figures: Figures,
    growth: Growth | None,
    message: OomText | None,
    circumstances: Circumstances,
) -> Evidence:
    """Collect the evidence on one OOM entry.

    Args:
        device: device whose trace contains the entry.
        state: live and reserved bytes at the entry.
        entry: the OOM entry.
        figures: figures of the failure.
        growth: growth of one line until the entry.
        message: matching text of an exception.
        circumstances: facts from a watch.
    """
    event, trace = entry.event, device.trace
    stacks, table = device.stacks, device.allocations
    agent = device.snapshot.agent
    # The agent's record is of the file's last OOM.
    is_last = event == device.replay.ooms[-1]
    of_agent = is_last and agent.facts is not None and agent.facts.device == state.device
    facts, inventory = (agent.facts, agent.inventory) if of_agent else (None, None)
    cached = sum_private_cached(device.layout(event), stacks, entry.pool or DEFAULT_POOL)
    needed = figures.needed
    total, allowed = figures.total, figures.allowed
    if facts is not None:
        # torch passes its observer the device's total, or the part that it was allowed to use.
        refused = facts.free >= needed and state.reserved + needed > facts.limit
        if total is None and refused:
            total, allowed = circumstances.total, facts.limit
        elif total is None or (not refused and abs(total - facts.limit) <= TEXT_ROUNDING):
            total = facts.limit
    known = list_purposes(table, device.categories, stacks, event)
    half, narrow = find_half_block(device, event, entry.size, state.live, inventory)
    history = has_history(trace) or bool(known)
    stack = select_python_frames(entry.stack) or (() if facts is None else facts.stack)
    threads = () if inventory is None else inventory.threads
    thread = "main" if facts is None else facts.thread
    of_user = any(classify_frame(frame) == "user" for frame in stack)
    if not of_user and not threads:
        calls = find_backward_call(trace, stacks, event)
        threads = (ThreadStack("MainThread", False, True, calls),) if calls else ()
        thread = None if calls else thread
    return Evidence(
        device=state.device,
        requested=entry.size,
        needed=needed,
        allocated=state.live + state.rounding,
        rounding=state.rounding,
        reserved=state.reserved,
        step=None if facts is None else facts.step,
        free=figures.device_free if facts is None else facts.free,
        total=total,
        gpu_total=circumstances.total,
        allowed=allowed,
        pending=state.pending,
        stuck=figures.in_pieces,
        largest=figures.serving_largest,
        streams_cached=figures.streams_cached,
        graphs_cached=cached.get("CUDA graphs", 0),
        pools_cached=cached.get("MemPool", 0),
        private_cached=cached.get("private pools", 0),
        process=choose_process(message, circumstances.process),
        others=figures.others,
        others_least=figures.others_least,
        holders=circumstances.holders or list_other_holders(message, circumstances.known),
        stack=stack,
        threads=threads,
        thread=thread,
        inventory=inventory,
        purposes=known,
        models=count_models(table, device.categories, event) if known else 0,
        growth=growth,
        rate=circumstances.growth,
        half_block=half,
        half_block_is_narrow=narrow,
        settings=tuple(sorted(device.snapshot.settings.items())),
        expandable=figures.expandable or device.snapshot.has_expandable_segments,
        expandable_setting=device.snapshot.torch.expandable_setting,
        address_space=figures.address_space,
        text=message is not None,
        watched=circumstances.watched or facts is not None,
        recorded=circumstances.recorded,
        history=history,
        source=circumstances.source,
        lines=circumstances.lines,
    )
