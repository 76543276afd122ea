"""Memory that is no leak, although it looks like one."""

from __future__ import annotations

import pytest

from tests.explain.scenes import (
    BACKWARD,
    FORWARD,
    GIB,
    MIB,
    PROGRAM,
    TRAIN,
    container,
    evidence,
    growing,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.evidence import Evidence, Growth, Rate
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.leak import find_leak

MODEL = part("parameters", 16)
SUM_BACKWARD = Frame(PROGRAM, 20, "train")
FIRST_PASS = (
    Frame(PROGRAM, 30, "features"),
    Frame(f"{FORWARD[1].filename}", 1789, "_call_impl"),
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
        "a replay buffer with a maximum length, in a program without an optimizer",
        evidence(inventory(container("replay", 6400, 200, kind="limited deque"), remainder=500)),
    ),
    (
        "a cache that was filled in the first third of the steps",
        evidence(
            inventory(
                MODEL,
                part("gradients", 16),
                container("cache", 2560, 40, kind="dict", length=40),
                remainder=4300,
                steps=tuple((step, 100 + min(64 * step, 2560)) for step in range(1, 121, 3)),
            )
        ),
    ),
    (
        "the same with few samples",
        evidence(
            inventory(
                MODEL,
                part("gradients", 16),
                container("cache", 2560, 40, kind="dict", length=40),
                remainder=4300,
                steps=((1, 164), (33, 2212), (49, 2660), (78, 2660), (97, 2660), (117, 2660)),
            )
        ),
    ),
    (
        "a buffer that the program empties now and then",
        evidence(
            inventory(
                MODEL,
                container("outputs", 6900, 217, enlarges=True, empties=Frame(PROGRAM, 17, "train")),
            ),
            rate=Rate(50 * MIB, 49 * MIB, 51 * MIB, "s", "torch's figures", 60.0),
        ),
    ),
    (
        "a checkpoint that takes half a minute to load",
        evidence(
            inventory(
                part("parameters", 3000),
                container("state", 3500, 200, kind="dict", enlarges=False),
                remainder=300,
            ),
            rate=Rate(110 * MIB, 100 * MIB, 120 * MIB, "s", "torch's figures", 33.0),
        ),
    ),
    (
        "a tensor that a dense block joins in its forward pass",
        evidence(
            inventory(
                part("parameters", 500),
                part("gradients", 500),
                variable("x", 1500, 20, where=FIRST_PASS[0], scope="local of features()"),
                remainder=4000,
                main=FIRST_PASS,
            ),
            stack=FIRST_PASS,
            requested=1560 * MIB,
            needed=1560 * MIB,
            source="x = torch.cat([x, new], 1)",
        ),
    ),
    (
        "models that are kept: their names hold what grew",
        evidence(
            inventory(
                part("parameters", 6400, "results (GPT)", 400, owners=25),
                part("optimizer state", 256, "optimizer (Adam)"),
                remainder=100,
                steps=growing(200, 42, 150),
            )
        ),
    ),
    (
        "a model that takes half a minute to load, and its first forward pass",
        evidence(
            inventory(part("parameters", 5000), variable("x", 512, 25), remainder=1300),
            rate=Rate(150 * MIB, 140 * MIB, 160 * MIB, "s", "torch's figures", 33.0),
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
        "losses that one backward pass ends",
        evidence(
            inventory(
                MODEL,
                container("losses", 0, 33, graphs=33, graph_nodes=1200, backward=SUM_BACKWARD),
                remainder=6800,
            )
        ),
    ),
    (
        "a sum of losses that one backward pass ends",
        evidence(
            inventory(
                part("parameters", 100, count=2),
                variable("loss", 0, 900, shape=(), accumulates=True, backward=SUM_BACKWARD),
                remainder=6800,
            )
        ),
    ),
    (
        "features of one pass, which hooks store in a global dictionary",
        evidence(
            inventory(
                MODEL,
                container(
                    "features",
                    6400,
                    40,
                    kind="dict",
                    graphs=40,
                    graph_nodes=135,
                    longest_graph=130,
                    where=None,
                    scope="global of train.py",
                ),
                remainder=200,
                steps=((1, 1500), (10, 1500), (20, 1500)),
            )
        ),
    ),
    (
        "a queue with a limit that large batches fill",
        evidence(
            inventory(
                MODEL,
                container("ready", 5120, 10, kind="limited Queue", where=None),
                variable("x", 512),
                remainder=1100,
                steps=growing(200, 400, 13),
            )
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
            growth=Growth(TRAIN, "train.py:15 train", 6 * GIB, 512, 511, False),
        ),
    ),
]


@pytest.mark.parametrize("found", [pytest.param(row[1], id=row[0]) for row in NO_LEAK])
def test_what_is_no_leak(found: Evidence) -> None:
    assert find_leak(found) is None
    assert explain(found).cause != "leak"
