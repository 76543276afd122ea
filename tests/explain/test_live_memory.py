"""Causes in live memory: the cause, the first line and the first advice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.explain.scenes import (
    BACKWARD,
    DEEPCOPY,
    FOREACH,
    GIB,
    LOAD,
    MIB,
    PACKAGES,
    PROGRAM,
    STATE,
    TO_CUDA,
    check_explanation,
    container,
    evidence,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.evidence import Evidence, Purpose, Rate
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import Container, NamedBytes

MODEL = part("parameters", 16)


def batches_of_threads(mib: int, threads: int) -> Container:
    """Return the batch that each of many threads holds."""
    return container(
        *("batch", mib, threads),
        kind="threads",
        scope="local of keep()",
        adds=Frame(PROGRAM, 7, "keep"),
    )


ALMOST_FULL: dict[str, Any] = {
    "allocated": 70 * GIB,
    "reserved": 71 * GIB,
    "free": int(0.5 * GIB),
    "requested": 2 * GIB,
    "needed": 2 * GIB,
    "total": 80 * GIB,
    "process": int(71.4 * GIB),
    "others": 0,
}
"""A device of which live tensors hold most, and a request for more than is free."""
ROWS: list[tuple[str, Evidence, str, str, str]] = [
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
        "Parameters: a checkpoint is loaded onto the device, where parameters hold 4.5 GiB",
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
        "a teacher that no optimizer updates",
        evidence(
            inventory(
                part("parameters", 100),
                part("parameters", 400, "teacher (GPT)", untrained=400 * MIB),
                remainder=6400,
            )
        ),
        "activations",
        "Activations: tensors saved for backward hold 6.2 GiB of the device's 7.2 GiB.",
        "if teacher (GPT) is not trained, call it in torch.no_grad()",
    ),
    (
        "results of several passes in variables",
        evidence(
            inventory(
                part("parameters", 100),
                *(variable(name, 160, 30, separate=True) for name in ("a", "b", "c", "d", "e")),
                remainder=6000,
            )
        ),
        "activations",
        "Activations of 6 passes hold 5.9 GiB of the device's 7.2 GiB: a, b, c and 2 more keep "
        "those of the earlier ones.",
        "wrap the passes in torch.no_grad(); else delete a, b, c and 2 more",
    ),
    (
        "tensors of one pass in variables",
        evidence(
            inventory(
                part("parameters", 100),
                *(variable(name, 160, 30 + nodes) for nodes, name in enumerate("abc")),
                remainder=6300,
            )
        ),
        "activations",
        "Activations: tensors saved for backward hold",
        "use a smaller batch",
    ),
    (
        "a model whose optimizer has flat copies of its parameters",
        evidence(inventory(part("parameters", 100, untrained=100 * MIB), remainder=6800)),
        "activations",
        "Activations: tensors saved for backward hold 6.6 GiB of the device's 7.2 GiB.",
        "use a smaller batch",
    ),
    (
        "a replay buffer with a limit beyond the device, between fragments",
        evidence(
            inventory(
                MODEL,
                container("replay", 4700, 700, kind="limited deque", limit=100_000),
                remainder=60,
            ),
            reserved=7000 * MIB,
        ),
        "other tensors",
        "Limit: replay (deque of 700 of at most 100 000, train.py:13) holds 4.6 GiB of the "
        "device's 7.3 GiB and would need 655.7 GiB when full.",
        "store the tensors of replay on the host with .cpu(), or set its maxlen below 700",
    ),
    (
        "a replay buffer with such a limit, in memory that has stopped growing",
        evidence(
            inventory(
                MODEL,
                container("replay", 4700, 700, kind="limited deque", limit=100_000),
                remainder=60,
                steps=tuple((step, 4720) for step in range(1, 21)),
            ),
        ),
        "other tensors",
        "Tensors of the program hold 4.6 GiB of the device's 5.2 GiB, most of it in replay",
        "keep replay (train.py:13) on the host and move the part that is needed, or free it",
    ),
    (
        "a replay buffer that fits when it is full, between fragments",
        evidence(
            inventory(
                MODEL,
                container("replay", 4700, 700, kind="limited deque", limit=800),
                remainder=60,
            ),
            reserved=7000 * MIB,
        ),
        "fragmentation",
        "Fragmentation: 2.2 GiB",
        "set PYTORCH_ALLOC_CONF=expandable_segments:True",
    ),
    (
        "a batch in each of many threads",
        evidence(
            inventory(
                MODEL,
                batches_of_threads(3000, 215),
                container("images", 2000, 1),
                container("labels", 2000, 1),
            ),
            rate=Rate(2e8, 1e8, 3e8, "s", "measured", 30),
        ),
        "other tensors",
        "of which batch (local of keep() in 215 threads) is the largest with 2.9 GiB, train.py:7.",
        "run fewer threads at once",
    ),
    (
        "only these",
        evidence(
            inventory(
                MODEL,
                batches_of_threads(6880, 430),
            ),
            rate=Rate(2e8, 1e8, 3e8, "s", "measured", 30),
        ),
        "other tensors",
        "most of it in batch (local of keep() in 430 threads), train.py:7.",
        "run fewer threads at once, end those that wait, or free batch (train.py:7)",
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
        "forward passes in a snapshot alone, which cannot tell saved tensors from kept outputs",
        evidence(purposes=(Purpose("forward pass", 7 * GIB, "train.py:8 forward", 7 * GIB),)),
        "activations",
        "Activations: tensors of forward passes hold 7 GiB",
        "use a smaller batch",
    ),
    (
        "the models of a search, which a list keeps with their optimizers",
        evidence(
            inventory(
                *(part("parameters", 200, f"results[{n}].model (GPT)") for n in range(9)),
                *(part("optimizer state", 400, f"results[{n}].optimizer (Adam)") for n in range(9)),
                remainder=800,
            ),
            stack=STATE,
        ),
        "parameters",
        "Parameters: 9 models in results, with optimizer state, hold 5.3 GiB",
        "free each model in results and its optimizer",
    ),
    (
        "optimizers that their schedulers keep",
        evidence(
            inventory(
                part("parameters", 400),
                part("gradients", 400),
                *(part("optimizer state", 800, f"past[{n}].optimizer (Adam)") for n in range(7)),
                remainder=90,
            ),
            stack=FOREACH,
        ),
        "optimizer state",
        "Optimizer state: 7 optimizers in past hold 5.5 GiB of the device's",
        "drop each optimizer in past after its use",
    ),
    (
        "models in a dict that only answer requests",
        evidence(
            inventory(
                *(part("parameters", 200, f"MODELS[{n}] (Sequential)") for n in range(30)),
                remainder=800,
            ),
            stack=TO_CUDA,
        ),
        "parameters",
        "Parameters: 30 models in MODELS hold 5.9 GiB",
        "free each model in MODELS after its use",
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
        "76 of at least 76.3 GiB",
        evidence(
            allocated=76 * GIB,
            reserved=int(76.2 * GIB),
            free=int(0.1 * GIB),
            requested=GIB,
            needed=GIB,
            total=None,
            process=None,
            others=None,
            text=False,
        ),
        "full",
        "Full: live tensors hold 76 GiB of an 80 GB device.",
        "use less GPU memory at once at train.py:15",
    ),
    (
        "live memory of unknown purpose that grows with each step",
        evidence(
            **ALMOST_FULL,
            rate=Rate(256 * MIB, 248 * MIB, 265 * MIB, "step", "measured", 200),
        ),
        "full",
        "Full: live tensors hold 70 GiB of the device's 80 GiB and grow by 256 MiB per step.",
        "use less GPU memory at once at train.py:15",
    ),
    (
        "live memory that hardly grows",
        evidence(
            **ALMOST_FULL,
            rate=Rate(MIB, MIB, MIB, "step", "measured", 200),
        ),
        "full",
        "Full: live tensors hold 70 GiB of the device's 80 GiB.",
        "use less GPU memory at once at train.py:15",
    ),
    (
        "cached pieces of unknown size that may have been enough",
        evidence(
            **ALMOST_FULL | {"reserved": 78 * GIB, "process": int(78.4 * GIB)},
            stuck=None,
            largest=None,
        ),
        "full",
        "Full: live tensors hold 70 GiB of the device's 80 GiB; 8 GiB is cached, perhaps in pieces "
        "too small for 2 GiB.",
        "use less GPU memory at once at train.py:15",
    ),
]


@pytest.mark.parametrize(
    ("found", "cause", "line", "advice"), [pytest.param(*row[1:], id=row[0]) for row in ROWS]
)
def test_cause_line_and_advice(found: Evidence, cause: str, line: str, advice: str) -> None:
    check_explanation(found, cause, line, advice)


def test_a_backward_pass_that_has_begun_needs_no_advice_against_it() -> None:
    taken = inventory(part("parameters", 500), variable("x", 64), remainder=6000, main=BACKWARD)
    begun = evidence(taken, stack=(), thread=None)
    assert explain(begun).cause == "activations"
    assert not any("no_grad" in each.what for each in explain(begun).advice)
    forward = evidence(inventory(part("parameters", 500), variable("x", 64), remainder=6000))
    assert any("no_grad" in each.what for each in explain(forward).advice)


def test_a_tensor_of_the_previous_iteration_is_named_if_the_request_had_fit_without_it() -> None:
    def explained(mib: int, **more: Any) -> Explanation:
        logits = variable("logits", mib, left_over=("outputs", "logits"), **more)
        return explain(evidence(inventory(MODEL, logits, variable("loss", 0, 40), remainder=4000)))

    freed = Frame(PROGRAM, 14, "train")
    found = explained(1500, nodes=40, backward=freed)
    assert found.cause == "activations"
    assert found.conclusion.endswith("; logits of the previous iteration still holds 1.5 GiB.")
    best = found.advice[0]
    assert best.what == "delete outputs and logits (del) at the end of each iteration"
    assert best.why.startswith("logits keeps 1.5 GiB of the previous iteration until it is")
    # Its graph may be alive, or it is too small.
    for other in (explained(1500, nodes=40), explained(50, nodes=40, backward=freed)):
        assert "previous iteration" not in other.conclusion
        assert not any("previous iteration" in remedy.why for remedy in other.advice)


def test_one_result_left_over_keeps_the_graph_of_its_pass() -> None:
    scores = variable("scores", 40, 300, separate=True, left_over=("scores",))
    found = explain(evidence(inventory(MODEL, scores, remainder=6000)))
    assert "Activations of 2 passes hold" in found.conclusion
    assert found.conclusion.endswith(": scores keeps those of the earlier one.")
    assert "else delete scores once it is used" in found.advice[0].what
    trained = explain(evidence(inventory(MODEL, scores, remainder=6000, steps=((3, 3000),))))
    assert "passes" not in trained.conclusion


RECOMPUTE = (
    Frame(f"{PACKAGES}/nn/modules/activation.py", 816, "forward"),
    Frame(f"{PACKAGES}/nn/modules/module.py", 1789, "_call_impl"),
    Frame(f"{PACKAGES}/utils/checkpoint.py", 1160, "unpack_hook"),
)


def test_a_part_that_backward_computes_again_is_placed_at_the_call_of_backward() -> None:
    found = evidence(
        inventory(part("parameters", 100), remainder=6500, main=BACKWARD, asks=False),
        stack=RECOMPUTE,
        thread="Dummy-1",
    )
    line = "Activations: a checkpointed part, which backward recomputes as a whole, holds 6.3 GiB"
    check_explanation(found, "activations", line, "call checkpoint() on smaller parts")
    explained = explain(found)
    assert ", in backward, called from train.py:15 in train. " in explained.line
    assert not any("use activation checkpointing" in each.what for each in explained.advice)


def test_gradients_that_no_optimizer_uses_lead() -> None:
    own = part("gradients", 2400, untrained=2300 * MIB)
    found = evidence(inventory(part("parameters", 4000), own, remainder=600), thread=None)
    line = "Gradients: 2.2 GiB of the device's 7.3 GiB are of parameters of model (GPT) that no"
    check_explanation(found, "gradients", line, "freeze the parameters of model (GPT)")
    # A model of which no optimizer updates any parameter may be trained by copies of them.
    whole = part("gradients", 2400, untrained=2400 * MIB)
    copies = evidence(inventory(part("parameters", 4000), whole, remainder=600), thread=None)
    assert "no optimizer" not in explain(copies).line


def test_the_gradient_of_a_table_in_one_piece_is_no_tensor_of_the_batch() -> None:
    table = part(
        "parameters", 3900, "table (Embedding)", largest=(NamedBytes("weight", 3900 * MIB),)
    )
    found = evidence(
        inventory(table, remainder=50, main=BACKWARD, asks=False),
        requested=3900 * MIB,
        needed=3900 * MIB,
        free=3000 * MIB,
        thread=None,
        stack=(),
    )
    line = "Gradients: 3.8 GiB for weight of table (Embedding) in one piece does not fit"
    check_explanation(found, "gradients", line, "make it with sparse=True")


def test_an_optimizer_step_beside_large_data_is_not_to_blame() -> None:
    held = (part("parameters", 200), part("optimizer state", 400), variable("images", 6000))
    found = evidence(inventory(*held, remainder=100), stack=FOREACH)
    check_explanation(found, "other tensors", "most of it in images", "keep images")


def test_a_copy_that_is_made_names_what_was_copied_before() -> None:
    held = (part("parameters", 1900), container("best", 1900, 60, kind="dict"))
    found = evidence(inventory(*held, remainder=100), stack=DEEPCOPY)
    line = (
        "copy.deepcopy makes another copy; model (GPT) holds 1.9 GiB of the device's 4.3 GiB, and"
    )
    check_explanation(found, "parameters", line, "keep the copy of the model on the host")
