"""Each cause and its advice, from evidence written by hand: the first line and the first advice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.explain.scenes import (
    BACKWARD,
    DEEPCOPY,
    FOREACH,
    FORWARD,
    GIB,
    LOAD,
    MIB,
    PROGRAM,
    STATE,
    TO_CUDA,
    TRAIN,
    container,
    evidence,
    growing,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.account import compute_account, infer_capacity
from tui.snapshots.explain.evidence import Evidence, Grown, Holder, Purpose, Rate
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.inventory import CodeLine, NamedBytes, ThreadStack
from tui.snapshots.explain.leak import find_leak
from workloads.protocol.wire import field_values

LOSSES = container("losses", 6080, 190, graphs=190)
HOOK = CodeLine(PROGRAM, 40, "hook")
EVALUATE = CodeLine(PROGRAM, 22, "evaluate")
MODEL = part("parameters", 16)
ROWS: list[tuple[str, Evidence, str, str, str]] = [
    (
        "a list of losses with their graphs",
        evidence(inventory(MODEL, LOSSES, remainder=96, steps=growing(100, 32, 190))),
        "leak",
        "Leak: losses (list of 190, train.py:13) grows by 32 MiB per step.",
        "store detach() or item() of each tensor in losses at train.py:13",
    ),
    (
        "a running total",
        evidence(
            inventory(
                MODEL,
                variable("total", 0, 1772, shape=()),
                variable("loss", 0, 31, shape=()),
                other=6000,
                remainder=200,
                steps=growing(100, 96, 66),
            )
        ),
        "leak",
        "Leak: total (a graph of 1 772 nodes, train.py:12) grows by 96 MiB per step.",
        "add loss.item() or loss.detach() to total at train.py:12",
    ),
    (
        "outputs of an evaluation with their graphs",
        evidence(
            inventory(
                MODEL,
                container("preds", 1984, 62, graphs=62, where=EVALUATE),
                remainder=4800,
            )
        ),
        "leak",
        "Leak: preds (list of 62, train.py:13) holds 6.6 GiB and a graph for each.",
        "wrap the evaluation at train.py:13 in torch.no_grad()",
    ),
    (
        "a dict that keeps plain outputs, in a run without an optimizer",
        evidence(inventory(MODEL, container("CACHE", 6900, 217, kind="dict", where=None))),
        "other tensors",
        "7.3 GiB, most of it in CACHE, train.py:13 in train.",
        "keep CACHE (train.py:13) on the host",
    ),
    (
        "the same global dict",
        evidence(
            inventory(
                MODEL,
                container("CACHE", 6900, 217, kind="dict", where=None, scope="global of train.py"),
            )
        ),
        "leak",
        "Leak: CACHE (dict of 217, train.py:13) holds 6.7 GiB.",
        "bound the length of CACHE at train.py:13",
    ),
    (
        "a key-value cache that torch.cat grows",
        evidence(
            inventory(MODEL, variable("past", 3200, shape=(8, 100, 4096, 256))),
            asked=3232 * MIB,
            needed=3232 * MIB,
            source="past = torch.cat([past, new], dim=1)",
        ),
        "leak",
        "Leak: past (train.py:12) holds 3.1 GiB.",
        "preallocate past at train.py:12",
    ),
    (
        "exceptions whose tracebacks keep frames",
        evidence(
            inventory(container("errors", 7000, 221, through="frames kept by tracebacks"), MODEL)
        ),
        "leak",
        "Leak: errors (list of 221, train.py:13), frames kept by tracebacks, holds 6.8 GiB.",
        "do not store exceptions",
    ),
    (
        "a state that is carried on with its graph",
        evidence(
            inventory(part("parameters", 8, count=4), variable("hidden", 32, 646), other=6800),
        ),
        "leak",
        "Leak: hidden (a graph of 646 nodes, train.py:12) holds 6.7 GiB.",
        "cut the graph of hidden at train.py:12 with detach()",
    ),
    (
        "growth that nothing names",
        evidence(inventory(MODEL, other=6500, remainder=100, steps=growing(100, 32, 200))),
        "leak",
        "grow by 32 MiB per step.",
        "call gc.collect()",
    ),
    (
        "a module that is given numbered buffers",
        evidence(
            inventory(
                part(
                    "buffers",
                    7000,
                    "memory (Memory)",
                    221,
                    largest=(NamedBytes("slot0", 32 * MIB), NamedBytes("slot1", 32 * MIB)),
                )
            )
        ),
        "leak",
        "Leak: buffers of memory (Memory) (221, slot0 …) hold 6.8 GiB.",
        "bound the length of buffers of memory (Memory)",
    ),
    (
        "growth that a history tells of one line",
        evidence(
            grown=Grown(TRAIN, "train.py:15 train", 6 * GIB, 190, 189, False),
            purposes=(Purpose("not told", 7 * GIB, "train.py:15 train", 6 * GIB),),
            history=True,
        ),
        "leak",
        "Leak: 190 tensors of train.py:15 train grow by 32.5 MiB per iteration.",
        "store detach() or item() of the tensors allocated at train.py:15",
    ),
    (
        "growth that the watch measured, of a container without optimizer steps",
        evidence(
            inventory(MODEL, container("queue", 5000, 150, kind="Queue")),
            rate=Rate(3e6, 2.9e6, 3.1e6, "s", "read from outside"),
        ),
        "leak",
        "Leak: queue (Queue of 150, train.py:13) grows by 2.9 MiB per second.",
        "bound the length of queue at train.py:13",
    ),
    (
        "parameters alone",
        evidence(inventory(part("parameters", 6900)), stack=TO_CUDA),
        "parameters",
        "Parameters: model (GPT) holds 6.7 GiB of the device's 7.2 GiB.",
        "load it in lower precision",
    ),
    (
        "two models",
        evidence(
            inventory(part("parameters", 4000), part("parameters", 2900, "teacher (GPT)")),
            stack=TO_CUDA,
        ),
        "parameters",
        "Parameters: 2 models, model (GPT), teacher (GPT), hold 6.7 GiB of the device's 7.2 GiB.",
        "delete the old model",
    ),
    (
        "a copy of the model for an average",
        evidence(
            inventory(part("parameters", 5000), part("parameters", 400, "Linear")), stack=DEEPCOPY
        ),
        "parameters",
        "Parameters: model (GPT) and modules that are being built or copied, hold 5.3 GiB",
        "keep the copy of the model on the host",
    ),
    (
        "a checkpoint that is loaded to the GPU",
        evidence(inventory(part("parameters", 4600), container("state", 2300, 9)), stack=LOAD),
        "parameters",
        "Parameters: model (GPT) holds 4.5 GiB",
        "load the checkpoint to the host",
    ),
    (
        "gradients",
        evidence(
            inventory(
                part("parameters", 4600),
                part("gradients", 2300),
                remainder=64,
                main=BACKWARD,
            ),
            stack=(),
            thread=None,
        ),
        "gradients",
        "Gradients hold 2.2 GiB of the device's 7.3 GiB, beside 4.5 GiB of parameters.",
        "shard gradients and optimizer state",
    ),
    (
        "optimizer state",
        evidence(
            inventory(
                part("parameters", 2300),
                part("gradients", 2300),
                part("optimizer state", 2200, "optimizer (Adam)"),
            ),
            stack=STATE,
        ),
        "optimizer state",
        "Optimizer state: optimizer (Adam) holds 2.1 GiB of the device's 7.1 GiB, beside 2.2 GiB",
        "use an optimizer with less state",
    ),
    (
        "temporaries of foreach",
        evidence(
            inventory(
                part("parameters", 1700),
                part("gradients", 1700),
                part("optimizer state", 3400, "optimizer (Adam)"),
            ),
            stack=FOREACH,
        ),
        "temporaries",
        "Temporaries: the optimizer's step requested 64 MiB beside its model and state.",
        "construct the optimizer with foreach=False",
    ),
    (
        "activations",
        evidence(inventory(part("parameters", 500), variable("x", 64), remainder=6000)),
        "activations",
        "Activations: tensors saved for backward hold 5.9 GiB of the device's 6.9 GiB.",
        "use a smaller batch",
    ),
    (
        "a cast to float32",
        evidence(
            inventory(MODEL, variable("logits", 3100, 4, dtype="bfloat16"), remainder=200),
            asked=6200 * MIB,
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
        "a request that is larger than the device",
        evidence(inventory(MODEL), asked=40 * GIB, needed=40 * GIB, free=7 * GIB),
        "larger than the device",
        "Request: 40 GiB in one piece is more than the device has",
        "allocate a smaller tensor at train.py:15",
    ),
    (
        "a data set on the device",
        evidence(
            inventory(part("gradients", 16), MODEL, variable("images", 6400), remainder=100),
        ),
        "other tensors",
        "Tensors of the program hold 6.2 GiB of the device's 6.9 GiB, most of it in images, "
        "train.py:12",
        "keep images (train.py:12) on the host",
    ),
    (
        "fragmentation",
        evidence(
            reserved=7 * GIB,
            allocated=3 * GIB,
            stuck=4 * GIB,
            largest=11 * MIB,
            asked=2 * GIB,
            needed=2 * GIB,
        ),
        "fragmentation",
        "Fragmentation: 4 GiB of the device's 7.5 GiB is cached and not in use, in pieces of at",
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
        "Refused with memory free: the device had 6 GiB free, more than the 64 MiB",
        "look for a limit: MIG",
    ),
    (
        "76 of at least 76.3 GiB",
        evidence(
            allocated=76 * GIB,
            reserved=int(76.2 * GIB),
            free=int(0.1 * GIB),
            asked=GIB,
            needed=GIB,
            total=None,
            process=None,
            others=None,
            text=False,
        ),
        "full",
        "Full: this process's live tensors hold 76 GiB, all of an 80 GB device.",
        "use less GPU memory at once at train.py:15",
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
        "Unknown: 64 MiB was refused with 2 GiB live in this process",
        "start the program with gpu-workbench watch",
    ),
]


@pytest.mark.parametrize(
    ("found", "cause", "line", "advice"), [pytest.param(*row[1:], id=row[0]) for row in ROWS]
)
def test_cause_line_and_advice(found: Evidence, cause: str, line: str, advice: str) -> None:
    told = explain(found)
    assert told.cause == cause
    assert line in told.conclusion
    assert advice in told.advice[0].what
    assert sum(row.bytes for row in told.account) == told.used
    whats = " ".join(each.what for each in told.advice)
    assert "allocated before the recording" not in whats
    if found.watched:
        assert "gpu-workbench watch -- python" not in whats
    if cause not in ("activations", "temporaries", "other tensors", "full", "unknown"):
        assert "a smaller batch" not in whats


FIRST_PASS = (
    CodeLine(PROGRAM, 30, "features"),
    CodeLine(f"{FORWARD[1].filename}", 1789, "_call_impl"),
    TRAIN,
)
NO_LEAK: list[tuple[str, Evidence]] = [
    (
        "the first step of an optimizer",
        evidence(
            inventory(
                part("parameters", 2000),
                part("optimizer state", 4000, "optimizer (Adam)"),
                remainder=600,
                steps=((1, 6000),),
            )
        ),
    ),
    (
        "a warm-up: memory grows for some steps, then stays",
        evidence(
            inventory(
                part("parameters", 2000),
                remainder=4800,
                steps=tuple((step, min(2000 + 100 * step, 2500)) for step in range(1, 40)),
            )
        ),
    ),
    (
        "a batch that grows: the tensors of the newest step are what grew",
        evidence(
            inventory(
                MODEL,
                variable("x", 1500),
                variable("out", 1500, 10),
                remainder=3800,
                steps=growing(100, 100, 24),
            )
        ),
    ),
    (
        "workspaces of convolutions",
        evidence(
            inventory(MODEL, variable("images", 100), remainder=6800, steps=growing(200, 0, 20))
        ),
    ),
    (
        "a loader that prefetches four batches",
        evidence(
            inventory(
                MODEL,
                container("ready", 2000, 4, kind="Queue"),
                remainder=4800,
                steps=growing(2100, 0, 30),
            )
        ),
    ),
    (
        "features that one forward pass collects",
        evidence(
            inventory(
                MODEL,
                container("features", 3000, 48, graphs=48, where=FIRST_PASS[0]),
                remainder=3800,
                main=FIRST_PASS,
            ),
            stack=FIRST_PASS,
        ),
    ),
    (
        "the first backward through many layers",
        evidence(
            inventory(
                part("parameters", 500, count=200),
                variable("loss", 0, 800, shape=()),
                remainder=6000,
                main=BACKWARD,
            ),
            stack=(),
            thread=None,
        ),
    ),
    (
        "data that is on the device since before the training",
        evidence(
            inventory(
                MODEL,
                part("gradients", 16),
                container("batches", 6000, 400),
                remainder=800,
                steps=growing(6100, 0, 30),
            )
        ),
    ),
    (
        "one pass that keeps hundreds of activations of one line, as its history has it",
        evidence(
            inventory(MODEL, remainder=6900),
            grown=Grown(TRAIN, "train.py:15 train", 6 * GIB, 512, 511, False),
        ),
    ),
]


@pytest.mark.parametrize("found", [pytest.param(row[1], id=row[0]) for row in NO_LEAK])
def test_what_is_no_leak(found: Evidence) -> None:
    assert find_leak(found) is None
    assert explain(found).cause != "leak"


# ---- the first line ----


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, "OOM at step 190, train.py:15 in train. "),
        ({"step": 0}, "OOM before any optimizer step, train.py:15 in train. "),
        ({"step": None}, "OOM at train.py:15 in train. "),
        (
            {"stack": (), "thread": None, "threads": (ThreadStack("M", False, True, BACKWARD),)},
            "OOM at step 190, in backward, called from train.py:15 in train. ",
        ),
        ({"thread": "loader"}, "OOM at step 190, in thread loader, train.py:15 in train. "),
        ({"stack": (), "threads": ()}, "OOM at step 190, at an unrecorded line. "),
        (
            {"stack": (CodeLine(PROGRAM, 3, "<module>"),), "step": None},
            "OOM at train.py:3. ",
        ),
    ],
)
def test_place_and_step(more: dict[str, object], place: str) -> None:
    steps = growing(100, 32, 190)
    found = evidence(inventory(MODEL, LOSSES, steps=steps), **{"step": 190, **more})
    assert explain(found).line.startswith(f"{place}Leak: losses")


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("/home/ann/miniconda3/envs/x/lib/python3.10/site-packages/mine/model.py", "train.py:15"),
        ("/usr/lib/python3/dist-packages/mine/model.py", "train.py:15"),
        ("/usr/lib/python3.12/contextlib.py", "train.py:15"),
        ("<frozen runpy>", "train.py:15"),
        ("/home/ann/src/mine/model.py", "model.py:7"),
        ("<stdin>", "<stdin>:7"),
    ],
)
def test_the_users_own_frame(inner: str, shown: str) -> None:
    stack = (*FORWARD[:2], CodeLine(inner, 7, "step"), TRAIN)
    assert explain(evidence(stack=stack)).line.startswith(f"OOM at {shown}")


# ---- weighing ----


def test_34_mib_of_fragments_in_6_8_gib_are_never_the_cause() -> None:
    live = 6800 * MIB
    found = evidence(allocated=live, reserved=live + 34 * MIB, stuck=34 * MIB, asked=32 * MIB)
    for needed in (20 * MIB, 32 * MIB, 40 * MIB):
        assert explain(evidence(**{**field_values(found), "needed": needed})).cause == "full"


def test_expandable_segments_that_would_not_have_been_enough_are_not_advised() -> None:
    taken = inventory(part("parameters", 500), remainder=5000)
    found = evidence(
        taken,
        reserved=taken.allocated + 1200 * MIB,
        asked=1300 * MIB,
        needed=1300 * MIB,
        stuck=1200 * MIB,
        largest=100 * MIB,
    )
    told = explain(found)
    assert told.cause == "activations"
    last = told.advice[-1]
    assert last.what == "do not expect expandable segments or empty_cache() to help"
    assert "they would free 1.2 GiB, less than the missing 1.3 GiB" in last.why


def test_a_run_with_record_is_not_advised_to_record() -> None:
    taken = inventory(MODEL, other=6500, remainder=100, steps=growing(100, 32, 200))
    without, recorded = evidence(taken), evidence(taken, recorded=True)
    assert any("--record" in each.what for each in explain(without).advice)
    assert not any("--record" in each.what for each in explain(recorded).advice)


BYTES = st.integers(0, 16 * GIB)
MAYBE = st.none() | BYTES


@settings(deadline=None, max_examples=200)
@given(
    numbers=st.lists(BYTES, min_size=9, max_size=9),
    maybe=st.lists(MAYBE, min_size=5, max_size=5),
    parts=st.lists(st.integers(0, 9000), min_size=6, max_size=6),
    steps=st.lists(st.integers(0, 9000), max_size=12),
    graphs=st.booleans(),
)
def test_the_account_adds_up_to_what_is_used(
    numbers: list[int],
    maybe: list[int | None],
    parts: list[int],
    steps: list[int],
    graphs: bool,
) -> None:
    """Also where the sources contradict each other."""
    taken = inventory(
        part("parameters", parts[0]),
        part("gradients", parts[1]),
        container("kept", parts[2], 40, graphs=40 * graphs),
        variable("x", parts[3], 900 * graphs),
        other=parts[4],
        remainder=parts[5],
        steps=tuple(enumerate(steps, 1)),
    )
    found = Evidence(
        device=0,
        asked=numbers[0],
        needed=numbers[0],
        allocated=numbers[1],
        rounding=maybe[0],
        reserved=numbers[2],
        free=maybe[1],
        total=maybe[2],
        pending=numbers[3],
        stuck=numbers[4],
        largest=numbers[5],
        streams_cached=numbers[6],
        graphs_cached=numbers[7],
        private_cached=numbers[8],
        process=maybe[3],
        others=maybe[4],
        stack=FORWARD,
        inventory=taken,
    )
    told = compute_account(found, find_leak(found))
    assert sum(row.bytes for row in told.rows) == told.used
    assert all(row.bytes > 0 for row in told.rows)
    if told.used:
        assert sum(row.share for row in told.rows) == pytest.approx(1)
    if found.total is not None and found.free is not None and found.free <= found.total:
        assert told.used == max(found.total - found.free, found.reserved)
    explain(found)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (76.3, "an 80 GB device"),
        (79.2, "an 80 GB device"),
        (23.6, "a 24 GB device"),
        (139.8, "a 141 GB device"),
        (14.9, "a 16 GB device"),
        (50.0, "at least 50 GiB"),
    ],
)
def test_the_usual_size_that_the_known_least_nearly_fills(known: float, words: str) -> None:
    size = int(known * GIB)
    found = evidence(
        allocated=size - GIB, reserved=size - GIB, free=GIB, total=None, process=None, others=None
    )
    assert infer_capacity(found).words == words
