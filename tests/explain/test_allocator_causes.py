"""Causes in the cache, the request, limits and other processes, and how they are weighed."""

from __future__ import annotations

import pytest

from tests.explain.scenes import (
    BACKWARD,
    GIB,
    MIB,
    TRAIN,
    check_explanation,
    container,
    evidence,
    growing,
    inventory,
    part,
    variable,
)
from tui.kit.lines import plain
from tui.snapshots.explain.evidence import Evidence, Holder
from tui.snapshots.explain.explain import explain
from tui.snapshots.model.results import AGAINST_OOM
from tui.snapshots.views.overview import advice_lines
from workloads.protocol.wire import field_values

MODEL = part("parameters", 16)
ROWS: list[tuple[str, Evidence, str, str, str]] = [
    (
        "a cast to float32",
        evidence(
            inventory(MODEL, variable("logits", 3100, 4, dtype="bfloat16"), remainder=200),
            requested=6200 * MIB,
            needed=6200 * MIB,
            free=3800 * MIB,
            total=8 * GIB,
            half_block="logits (bfloat16)",
            half_block_is_narrow=True,
        ),
        "larger than what was free",
        "Request: 6.1 GiB in one piece; 3.7 GiB was free and 3.2 GiB live of 8 GiB.",
        "look for a cast to float32 at train.py:15",
    ),
    (
        "the gradient of large logits",
        evidence(
            inventory(MODEL, remainder=4000, main=BACKWARD),
            requested=2000 * MIB,
            needed=2000 * MIB,
            free=1900 * MIB,
            total=8 * GIB,
            stack=(),
            thread=None,
        ),
        "larger than what was free",
        "Request: 2 GiB in one piece; 1.9 GiB was free and 3.9 GiB live of 8 GiB.",
        "use a smaller batch, or compute the largest tensor of the forward pass in parts",
    ),
    (
        "a request that joins the tensors of a list",
        evidence(
            inventory(MODEL, container("outs", 3700, 100), remainder=60),
            requested=3700 * MIB,
            needed=3700 * MIB,
            free=3600 * MIB,
            total=8 * GIB,
        ),
        "larger than what was free",
        "Request: 3.6 GiB in one piece, the size of outs (list of 100, train.py:13); 3.5 GiB was "
        "free and 3.7 GiB live of 8 GiB.",
        "move each tensor of outs to the host with .cpu() and join them there",
    ),
    (
        "a request of a model that is larger than the device",
        evidence(inventory(MODEL), requested=40 * GIB, needed=40 * GIB, free=7 * GIB),
        "larger than the device",
        "Request: 40 GiB in one piece is more than the device has",
        "use a smaller batch or a shorter sequence at train.py:15",
    ),
    (
        "a request outside all models that is larger than the device",
        evidence(
            inventory(MODEL, main=(TRAIN,)),
            requested=40 * GIB,
            needed=40 * GIB,
            free=7 * GIB,
            stack=(TRAIN,),
        ),
        "larger than the device",
        "Request: 40 GiB in one piece is more than the device has",
        "allocate a smaller tensor at train.py:15",
    ),
    (
        "fragmentation",
        evidence(
            reserved=7 * GIB,
            allocated=3 * GIB,
            stuck=4 * GIB,
            largest=11 * MIB,
            requested=2 * GIB,
            needed=2 * GIB,
        ),
        "fragmentation",
        "Fragmentation: 4 GiB of the device's 7.5 GiB is cached and not in use, in pieces of at",
        "set PYTORCH_ALLOC_CONF=expandable_segments:True",
    ),
    (
        "cached in pieces of unknown size, and far more than was requested",
        evidence(
            reserved=7 * GIB,
            allocated=3 * GIB,
            stuck=4 * GIB,
            largest=None,
            requested=2 * GIB,
            needed=2 * GIB,
        ),
        "cached",
        "Cached: 4 GiB of the device's 7.5 GiB is cached and not in use (fragmentation, other",
        "set PYTORCH_ALLOC_CONF=expandable_segments:True",
    ),
    (
        "cached for other streams",
        evidence(
            reserved=7 * GIB,
            allocated=3 * GIB,
            stuck=0,
            largest=0,
            streams_cached=4 * GIB,
        ),
        "other streams",
        "Other streams: their caches hold 4 GiB",
        "use fewer streams",
    ),
    (
        "pools of CUDA graphs",
        evidence(reserved=7 * GIB, allocated=3 * GIB, stuck=0, largest=0, graphs_cached=4 * GIB),
        "CUDA graphs",
        "CUDA graphs: their private pools hold 4 GiB",
        "release CUDA graphs",
    ),
    (
        "a MemPool",
        evidence(reserved=7 * GIB, allocated=3 * GIB, stuck=0, largest=0, pools_cached=4 * GIB),
        "MemPool",
        "MemPool: pools of torch.cuda.MemPool hold 4 GiB",
        "drop the torch.cuda.MemPool",
    ),
    (
        "private pools of which it is not known whose they are",
        evidence(reserved=7 * GIB, allocated=3 * GIB, stuck=0, largest=0, private_cached=4 * GIB),
        "private pools",
        "Private pools (CUDA graphs or MemPool) hold 4 GiB",
        "release CUDA graphs",
    ),
    (
        "sizes that are rounded up",
        evidence(
            rounding=2 * GIB,
            settings=(("roundup_power2_divisions", "1:2, 2:2"),),
        ),
        "rounding",
        "Rounding: roundup_power2_divisions:2 makes blocks 2 GiB of the device's 7.9 GiB larger",
        "drop roundup_power2_divisions",
    ),
    (
        "freed, but streams still use it",
        evidence(pending=3 * GIB),
        "pending",
        "Pending: 3 GiB of the device's 7.9 GiB was freed, but streams still use it",
        "make the host wait for the side stream",
    ),
    (
        "the limit of the process",
        evidence(reserved=2 * GIB, allocated=2 * GIB, allowed=2 * GIB, free=6 * GIB),
        "process limit",
        "Process limit: set_per_process_memory_fraction allows 2 GiB; 2 GiB was reserved and",
        "raise torch.cuda.set_per_process_memory_fraction",
    ),
    (
        "another process",
        evidence(
            reserved=GIB,
            allocated=GIB,
            total=8 * GIB,
            holders=(Holder(4242, 6 * GIB, "ben", "python serve.py"),),
            others=6 * GIB,
        ),
        "other processes",
        "Other processes hold 6 GiB of the device's 8 GiB: process 4242 ben python serve.py 6 GiB.",
        "end or move process 4242 ben python serve.py",
    ),
    (
        "this process outside torch",
        evidence(reserved=GIB, allocated=GIB, total=8 * GIB, process=int(7.5 * GIB)),
        "outside torch",
        "This process holds 6.5 GiB of the device's 8 GiB outside torch.",
        "look for other users of GPU memory in this process: NCCL",
    ),
    (
        "memory free, and refused",
        evidence(reserved=GIB, allocated=GIB, total=8 * GIB, free=6 * GIB),
        "refused with memory free",
        "Refused with memory free: 64 MiB was refused with 6 GiB free on the device",
        "look for a limit: MIG",
    ),
    (
        "a device of unknown size, of which little is known",
        evidence(
            allocated=2 * GIB,
            reserved=2 * GIB,
            free=50 * MIB,
            total=None,
            process=None,
            others=None,
            text=False,
        ),
        "unknown",
        "Unknown: 64 MiB was refused with 2 GiB live",
        "start the program with gpu-workbench watch",
    ),
]


@pytest.mark.parametrize(
    ("found", "cause", "line", "advice"), [pytest.param(*row[1:], id=row[0]) for row in ROWS]
)
def test_cause_line_and_advice(found: Evidence, cause: str, line: str, advice: str) -> None:
    check_explanation(found, cause, line, advice)


def test_34_mib_of_fragments_in_6_8_gib_are_never_the_cause() -> None:
    live = 6800 * MIB
    found = evidence(allocated=live, reserved=live + 34 * MIB, stuck=34 * MIB, requested=32 * MIB)
    for needed in (20 * MIB, 32 * MIB, 40 * MIB):
        assert explain(evidence(**{**field_values(found), "needed": needed})).cause == "full"


def test_expandable_segments_that_would_not_have_been_enough_are_not_advised() -> None:
    taken = inventory(part("parameters", 500), remainder=5000)
    found = evidence(
        taken,
        reserved=taken.allocated + 1200 * MIB,
        requested=1300 * MIB,
        needed=1300 * MIB,
        stuck=1200 * MIB,
        largest=100 * MIB,
    )
    told = explain(found)
    assert told.cause == "activations"
    last = told.advice[-1]
    assert last.what == "expandable segments and empty_cache() do not help"
    assert "1.2 GiB is cached beside live blocks, less than the missing 1.3 GiB" in last.why
    rows = [plain(row) for row in advice_lines(told.advice, 80, AGAINST_OOM, explained=False)]
    assert rows[-1] == "Would not help: expandable segments, empty_cache()"
    assert sum("expandable" in row for row in rows) == 1


LEAKING = inventory(container("losses", 6080, 190, graphs=190), steps=growing(100, 32, 190))


@pytest.mark.parametrize(
    ("stuck", "why"),
    [
        (200, "less than the requested 300 MiB"),
        (400, "would fit this request, but not the next"),
        (1, ""),
    ],
)
def test_the_cache_is_compared_with_the_whole_request_if_the_device_had_room(
    stuck: int, why: str
) -> None:
    found = evidence(
        LEAKING,
        reserved=LEAKING.allocated + stuck * MIB,
        requested=300 * MIB,
        needed=300 * MIB,
        stuck=stuck * MIB,
        free=2 * GIB,
    )
    told = explain(found)
    assert told.cause == "leak"
    warned = [each.why for each in told.advice if each.futile]
    assert len(warned) == bool(why)
    assert all(why in each for each in warned)
