"""Leaks: the cause, the first line and the first advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.scenes import (
    FORWARD,
    GIB,
    MIB,
    PROGRAM,
    TO_CUDA,
    TRAIN,
    check_explanation,
    container,
    evidence,
    growing,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.evidence import Evidence, Growth, Purpose, Rate
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import NamedBytes

EVALUATE = Frame(PROGRAM, 22, "evaluate")
ADDS = Frame(PROGRAM, 13, "evaluate")
MODEL = part("parameters", 16)
SUM_BACKWARD = Frame(PROGRAM, 20, "train")
ROWS: list[tuple[str, Evidence, str, str, str]] = [
    (
        "a list of losses with their graphs",
        evidence(
            inventory(
                MODEL,
                container("losses", 0, 190, graphs=190),
                remainder=6176,
                steps=growing(100, 32, 190),
            )
        ),
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
        "add item() or detach() of each term to total at train.py:12",
    ),
    (
        "outputs of an evaluation with their graphs",
        evidence(
            inventory(
                MODEL,
                container("preds", 1984, 62, graphs=62, where=EVALUATE, adds=ADDS),
                remainder=4800,
            )
        ),
        "leak",
        "Leak: preds (list of 62, train.py:13) holds 6.6 GiB and a graph for each.",
        "run evaluate() under torch.no_grad()",
    ),
    (
        "a retry inside the except clause of the first attempt",
        evidence(
            inventory(
                part("parameters", 500),
                container(
                    "OutOfMemoryError",
                    800,
                    8,
                    kind="exception",
                    length=2,
                    graphs=8,
                    graph_nodes=300,
                    through="frames kept by tracebacks",
                    adds=None,
                ),
                variable("x", 400, 100),
                remainder=5000,
            ),
        ),
        "leak",
        "Leak: the exception handled at train.py:15 (through its traceback) holds 4.4 GiB.",
        "retry behind the except clause",
    ),
    (
        "a sum over batches before the first backward pass",
        evidence(
            inventory(
                MODEL,
                variable("total", 0, 1772, shape=()),
                variable("x", 64),
                other=6000,
            )
        ),
        "leak",
        "Leak: total (a graph of 1 772 nodes, train.py:12) holds 5.9 GiB.",
        "add item() or detach() of each term to total",
    ),
    (
        "outputs of training steps with their graphs",
        evidence(
            inventory(
                MODEL,
                container("outputs", 2400, 231, graphs=231),
                remainder=4400,
                steps=growing(100, 96, 66),
            )
        ),
        "leak",
        "Leak: outputs (list of 231, train.py:13) grows by 96 MiB per step.",
        "store detach().cpu() of each tensor in outputs at train.py:13",
    ),
    (
        "outputs of an evaluation after a training",
        evidence(
            inventory(
                MODEL,
                container("preds", 2400, 231, graphs=231, where=EVALUATE, adds=ADDS),
                remainder=4400,
                steps=((1, 96), (29, 96), (59, 96), (87, 96)),
            )
        ),
        "leak",
        "Leak: preds (list of 231, train.py:13) holds 6.6 GiB and a graph for each.",
        "run evaluate() under torch.no_grad()",
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
        "a global dict with two lines that add as much",
        evidence(
            inventory(
                MODEL,
                container(
                    "CACHE",
                    6900,
                    217,
                    kind="dict",
                    where=None,
                    scope="global of train.py",
                    also_adds=(Frame(PROGRAM, 17, "train"), Frame("/w/other.py", 3, "train")),
                ),
            )
        ),
        "leak",
        "Leak: CACHE (dict of 217, train.py:13 or 17 or other.py:3) holds 6.7 GiB.",
        "bound the length of CACHE at train.py:13 or 17 or other.py:3",
    ),
    (
        "a key-value cache that torch.cat grows",
        evidence(
            inventory(MODEL, variable("past", 3200, shape=(8, 100, 4096, 256))),
            requested=3232 * MIB,
            needed=3232 * MIB,
            source="past = torch.cat([past, new], dim=1)",
        ),
        "leak",
        "Leak: past (train.py:12) holds 3.1 GiB.",
        "preallocate past at train.py:12",
    ),
    (
        "a state that torch.cat grows in a training, where another line runs out",
        evidence(
            inventory(
                MODEL,
                part("gradients", 16),
                variable("Trainer.seen", 3200, scope="attribute of Trainer", enlarges=True),
                variable("y", 64),
                remainder=4000,
                steps=growing(4100, 64, 50),
            )
        ),
        "leak",
        "Leak: Trainer.seen (train.py:12) grows by 64 MiB per step.",
        "preallocate Trainer.seen at train.py:12",
    ),
    (
        "losses that a backward pass with retain_graph=True does not end",
        evidence(
            inventory(
                MODEL,
                container(
                    "losses",
                    0,
                    40,
                    graphs=40,
                    graph_nodes=1500,
                    backward=SUM_BACKWARD,
                ),
                remainder=6800,
                steps=growing(100, 160, 40),
            )
        ),
        "leak",
        "Leak: losses (list of 40, train.py:13) grows by 160 MiB per step.",
        "store detach() or item()",
    ),
    (
        "a list in each of several layers, filled in their forward passes",
        evidence(
            inventory(
                MODEL,
                *(
                    container(
                        f"model[{number}].maps",
                        1100,
                        280,
                        adds=Frame(PROGRAM, 7, "forward"),
                        where=Frame(PROGRAM, 7, "forward"),
                        scope="attribute of Block",
                    )
                    for number in range(6)
                ),
                remainder=100,
                steps=growing(100, 24, 280),
            )
        ),
        "leak",
        "Leak: model[0].maps and 5 more like it (list of 280, train.py:7) grow by 24 MiB per step.",
        "bound the length of model[0].maps",
    ),
    (
        "the graphs of a failed attempt behind a stored exception",
        evidence(
            inventory(
                MODEL,
                container(
                    "last",
                    512,
                    2,
                    kind="stored exception",
                    length=1,
                    graphs=1,
                    graph_nodes=60,
                    through="frames kept by tracebacks",
                ),
                remainder=5600,
            )
        ),
        "leak",
        "Leak: last (an exception, train.py:13), through its traceback, holds 6 GiB.",
        "do not store exceptions",
    ),
    (
        "the failed command of a notebook",
        evidence(
            inventory(
                MODEL,
                container(
                    "sys.last_value",
                    512,
                    2,
                    kind="exception",
                    length=1,
                    graphs=1,
                    graph_nodes=60,
                    through="frames kept by tracebacks",
                    where=None,
                    adds=None,
                ),
                remainder=5600,
            ),
            stack=TO_CUDA,
        ),
        "leak",
        "Leak: the exception of an earlier command (sys.last_value, through its traceback) holds",
        "sys.last_value = sys.last_traceback = None",
    ),
    (
        "caches of several layers, where attention runs out",
        evidence(
            inventory(
                MODEL,
                *(
                    variable(
                        name, 500, scope="attribute of Attention", enlarges=True, where=FORWARD[0]
                    )
                    for name in (
                        *("Attention.k", "Attention.v", "net[1].k", "net[1].v"),
                        *("net[2].k", "net[2].v", "net[3].k", "net[3].v"),
                    )
                ),
                remainder=2800,
            ),
            requested=700 * MIB,
            needed=700 * MIB,
        ),
        "leak",
        "Leak: Attention.k and 7 more like it (train.py:12) hold 3.9 GiB.",
        "preallocate Attention.k",
    ),
    (
        "a list that grows beside a larger model, without optimizer steps",
        evidence(
            inventory(
                part("parameters", 4000),
                container("seen", 2750, 43, scope="global of serve.py", where=None, enlarges=True),
                remainder=160,
            ),
            rate=Rate(54 * MIB, 53 * MIB, 55 * MIB, "s", "torch's figures", 55.0),
        ),
        "leak",
        "Leak: seen (list of 43, train.py:13) grows by 54 MiB per second.",
        "bound the length of seen at train.py:13",
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
            growth=Growth(TRAIN, "train.py:15 train", 6 * GIB, 190, 189, False),
            purposes=(Purpose("not told", 7 * GIB, "train.py:15 train", 6 * GIB),),
            history=True,
        ),
        "leak",
        "Leak: 190 tensors of train (train.py:15): 32.5 MiB more per iteration.",
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
]


@pytest.mark.parametrize(
    ("found", "cause", "line", "advice"), [pytest.param(*row[1:], id=row[0]) for row in ROWS]
)
def test_cause_line_and_advice(found: Evidence, cause: str, line: str, advice: str) -> None:
    check_explanation(found, cause, line, advice)


def test_a_run_with_record_is_not_advised_to_record() -> None:
    taken = inventory(MODEL, other=6500, remainder=100, steps=growing(100, 32, 200))
    without, recorded = evidence(taken), evidence(taken, recorded=True)
    assert any("--record" in each.what for each in explain(without).advice)
    assert not any("--record" in each.what for each in explain(recorded).advice)


def test_a_sum_before_the_first_backward_can_be_split() -> None:
    taken = inventory(MODEL, variable("total", 0, 1772, shape=()), other=6000)
    assert any(
        "call backward() on each loss" in each.what for each in explain(evidence(taken)).advice
    )


def test_a_longer_tensor_of_a_history_may_be_a_batch() -> None:
    growth = Growth(TRAIN, "train.py:15 train", 3 * GIB, 1, 36, True)
    (first, *_) = explain(evidence(growth=growth)).advice
    assert "if it is a batch or a sequence, limit its size" in first.what


def test_a_buffer_is_named_with_the_line_that_empties_it() -> None:
    empties = Frame(PROGRAM, 17, "train")
    taken = inventory(MODEL, container("outputs", 6900, 217, enlarges=True, empties=empties))
    check_explanation(
        evidence(taken),
        "other tensors",
        "most of it in outputs, train.py:13 in train, emptied at train.py:17.",
        "empty outputs (train.py:13) more often than at train.py:17",
    )


def test_the_largest_of_many_tensors_does_not_hold_most_of_them() -> None:
    names = [variable(f"t{number}", 1000 - number) for number in range(6)]
    line = explain(evidence(inventory(MODEL, *names))).line
    assert "of which t0 is the largest with 1 GiB" in line
    assert "most of it" not in line


def test_models_of_one_list_are_counted_though_they_are_one_row() -> None:
    taken = inventory(
        part("parameters", 6400, "results (GPT)", 400, owners=25),
        part("optimizer state", 256, "optimizer (Adam)"),
        steps=growing(200, 42, 150),
    )
    assert "Parameters: 25 models in results" in explain(evidence(taken)).line


@pytest.mark.parametrize("name", ["history", "outputs"])
def test_a_training_is_not_advised_to_run_without_gradients(name: str) -> None:
    found = evidence(
        inventory(
            MODEL,
            container(name, 2400, 231, graphs=231),
            remainder=4400,
            steps=growing(100, 96, 66),
        )
    )
    first, *others = [remedy.what for remedy in explain(found).advice]
    assert first.startswith(f"store detach().cpu() of each tensor in {name}")
    assert not any(what.startswith(("run ", "wrap ")) for what in others)
    assert any("if no backward follows" in what for what in others) is (name == "outputs")


def test_what_tensors_have_themselves_is_freed_neither_by_detach_nor_without_gradients() -> None:
    held = container("outputs", 6700, 429, graphs=429, where=EVALUATE, adds=ADDS)
    taken = inventory(MODEL, held, remainder=200, steps=growing(100, 16, 429))
    first, *others = explain(evidence(taken)).advice
    assert first.what == (
        "store detach().cpu() of each tensor in outputs at train.py:13, or bound its length "
        "(deque(maxlen=N), clear())"
    )
    assert "but 6.5 GiB is in the tensors themselves" in first.why
    keyed = inventory(MODEL, replace(held, kind="dict"), remainder=200, steps=growing(100, 16, 429))
    assert explain(evidence(keyed)).advice[0].what.endswith("(pop() of old keys, clear())")
    assert not any("no_grad" in remedy.what or "item()" in remedy.what for remedy in others)


def test_models_that_no_variable_refers_to_are_told_from_the_one_in_use() -> None:
    own = (
        part("parameters", 512, "Trainer.model (GPT)"),
        part("optimizer state", 1024, "Trainer.optimizer (AdamW)"),
    )
    lost = (
        part("parameters", 1024, "GPT", owners=2),
        part("optimizer state", 2048, "AdamW", owners=2),
    )
    line = "Leak: 2 earlier AdamW and GPT, to which no variable refers, hold 3 GiB."
    found = evidence(inventory(*own, *lost, remainder=100), stuck=1500 * MIB)
    check_explanation(found, "leak", line, "break the reference cycles")
    # A model of another class has no newer one: its holder is only unknown.
    alone = evidence(inventory(part("parameters", 6000, "GPT"), remainder=900))
    assert explain(alone).cause != "leak"


def test_views_with_a_graph_need_a_clone_as_well() -> None:
    held = container("shown", 6400, 400, graphs=400, viewed=50 * MIB)
    found = evidence(inventory(MODEL, held, remainder=96, steps=growing(100, 16, 400)))
    check_explanation(found, "leak", "Leak: shown (list of 400", "detach().clone() or item()")


def test_the_activations_of_a_step_are_none_of_a_leak_that_was_measured_early() -> None:
    # A fast program: memory was measured in 32 of its 398 steps alone.
    early = tuple((step, 100 + 16 * step) for step in range(1, 33))
    losses = container("losses", 1, 398, graphs=398)
    taken = replace(inventory(MODEL, losses, remainder=16 * 398 + 143, steps=early), step=398)
    explanation = explain(evidence(taken))
    leak = next(row for row in explanation.account if row.name == "leak")
    activations = next(row for row in explanation.account if row.name == "activations")
    assert (leak.bytes, activations.bytes) == (398 * 16 * MIB, 144 * MIB)
    assert "grows by 16 MiB per step" in explanation.line
