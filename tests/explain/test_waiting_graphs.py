"""Graphs that wait for one backward pass: the first line names them, the first advice ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.scenes import (
    LOAD,
    MIB,
    PROGRAM,
    TO_CUDA,
    check_explanation,
    container,
    evidence,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.evidence import Evidence, Growth, Purpose
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import Container, Variable

MODEL = part("parameters", 24)
BACKWARD_LINE = Frame(PROGRAM, 20, "train")
SITE = Frame(PROGRAM, 13, "train")
KEPT = Growth(SITE, "train.py:13 train", 6400 * MIB, 436, 32, replaced=False, keeps_passes=True)


def losses() -> Evidence:
    held = container("losses", 0, 33, graphs=33, graph_nodes=1200, backward=BACKWARD_LINE)
    return evidence(inventory(MODEL, held, remainder=6900))


def test_the_list_its_line_and_the_line_of_its_backward_are_named() -> None:
    line = "losses (list of 33, train.py:13) keeps them until backward at train.py:20"
    check_explanation(losses(), "activations", line, "call backward() on each item of losses")


def test_a_history_does_not_make_such_a_list_a_leak() -> None:
    check_explanation(replace(losses(), growth=KEPT), "activations", "until backward", "each item")


def test_a_sum_is_named_with_its_graph() -> None:
    held = variable("loss", 0, 900, shape=(), accumulates=True, backward=BACKWARD_LINE)
    line = "loss (a graph of 900 nodes, train.py:12) keeps them until backward at train.py:20"
    found = evidence(inventory(MODEL, held, remainder=6900))
    check_explanation(found, "activations", line, "call backward() on each term of loss")


def test_a_sum_that_a_recurrent_state_connects_is_cut_at_this_state() -> None:
    loss = variable("loss", 0, 900, shape=(), accumulates=True, backward=BACKWARD_LINE)
    state = variable("h", 1, 400, accumulates=True, backward=BACKWARD_LINE)
    found = evidence(inventory(MODEL, loss, state, remainder=6900))
    check_explanation(found, "activations", "until backward at train.py:20", "detach() of h (tr")


def test_a_backward_pass_that_retains_the_graph_does_not_end_it() -> None:
    held = variable(
        "total", 0, 900, shape=(), accumulates=True, backward=BACKWARD_LINE, retains=True
    )
    line = (
        "total (a graph of 900 nodes, train.py:12) keeps them, as backward at train.py:20 retains"
    )
    found = evidence(inventory(MODEL, held, remainder=6900))
    check_explanation(found, "activations", line, "new term of total, without retain_graph=True")


@pytest.mark.parametrize(
    "held",
    [
        variable("x", 16, 900, accumulates=True, backward=BACKWARD_LINE),
        container(
            "outputs", 48, 12, graphs=12, graph_nodes=900, longest_graph=890, backward=BACKWARD_LINE
        ),
    ],
    ids=["a tensor passed from layer to layer", "a list of tensors of one graph"],
)
def test_what_one_pass_holds_has_no_terms(held: Variable | Container) -> None:
    found = evidence(inventory(part("parameters", 24, count=90), held, remainder=6900))
    check_explanation(found, "activations", "tensors saved for backward", "a smaller batch")


def test_the_loss_of_a_usual_step_keeps_nothing_of_another() -> None:
    held = variable("loss", 0, 900, shape=(), accumulates=False, backward=BACKWARD_LINE)
    found = evidence(inventory(part("parameters", 24, count=90), held, remainder=6900))
    check_explanation(found, "activations", "tensors saved for backward", "a smaller batch")


@pytest.mark.parametrize(
    ("growth", "cause", "line", "advice"),
    [
        (
            KEPT,
            "activations",
            "Activations of train (train.py:13) grow by 200 MiB per iteration, ",
            "in training, call backward() in each iteration",
        ),
        (
            replace(KEPT, keeps_passes=False, fills=True),
            "activations",
            "Activations: tensors of forward passes hold",
            "a smaller batch",
        ),
        (
            replace(KEPT, keeps_passes=False),
            "leak",
            "Leak: 436 tensors of train (train.py:13): 200 MiB more per iteration.",
            "store detach() or item()",
        ),
        (
            replace(KEPT, keeps_passes=False, replaced=True, lengthening=4 * MIB),
            "leak",
            "Leak: the tensor of train (train.py:13) grows by 4 MiB per iteration.",
            "preallocate it",
        ),
    ],
)
def test_a_history_alone_says_what_it_shows(
    growth: Growth, cause: str, line: str, advice: str
) -> None:
    purposes = (Purpose("forward pass", 6900 * MIB, "train.py:13 train", 6400 * MIB),)
    found = evidence(purposes=purposes, growth=growth, step=None, history=True, recorded=True)
    check_explanation(found, cause, line, advice)


def test_an_evaluation_that_keeps_its_passes_is_first_told_to_save_none() -> None:
    purposes = (Purpose("forward pass", 6900 * MIB, "train.py:13 train", 6400 * MIB),)
    kept = replace(KEPT, where=Frame(PROGRAM, 66, "_evaluate"))
    found = explain(evidence(purposes=purposes, growth=kept, step=None, history=True))
    first, second, *_ = [remedy.what for remedy in found.advice]
    assert first.startswith("in evaluation, use torch.no_grad()")
    assert second.startswith("in training, call backward()")


def test_passes_that_grow_lead_before_a_limit_that_they_reach() -> None:
    purposes = (Purpose("forward pass", 6900 * MIB, "train.py:13 train", 6400 * MIB),)
    limited = evidence(purposes=purposes, growth=KEPT, allowed=MIB, history=True)
    line = "grow by 200 MiB per iteration"
    check_explanation(
        limited, "activations", line, "in training, call backward() in each iteration"
    )
    assert explain(limited).advice[-1].what == (
        "raise torch.cuda.set_per_process_memory_fraction, which only delays the failure"
    )
    unlimited = explain(replace(limited, allowed=None))
    assert not any("memory_fraction" in remedy.what for remedy in unlimited.advice)


def test_the_first_line_names_a_place_once() -> None:
    purposes = (Purpose("forward pass", 6900 * MIB, "train.py:15 train", 6400 * MIB),)
    same = replace(KEPT, where=Frame(PROGRAM, 15, "train"), label="train.py:15 train")
    found = explain(evidence(purposes=purposes, growth=same, step=None, history=True))
    assert found.line.startswith(
        "OOM at train.py:15 in train. Activations of train grow by 200 MiB per iteration"
    )
    assert found.conclusion.startswith("Activations of train (train.py:15) grow by 200 MiB")


def test_a_small_model_that_is_moved_is_not_to_blame_for_activations_that_fill_the_device() -> None:
    found = evidence(inventory(MODEL, remainder=6900), stack=TO_CUDA)
    check_explanation(found, "activations", "tensors saved for backward", "a smaller batch")


def test_a_checkpoint_that_is_loaded_onto_the_device_is_named() -> None:
    held = (part("parameters", 1200), part("optimizer state", 2500, "optimizer (Adam)"))
    found = evidence(inventory(*held, other=3100), stack=LOAD)
    line = (
        "a checkpoint is loaded onto the device, where parameters hold 1.2 GiB of the device's "
        "7.1 GiB and 2.4 GiB of optimizer state"
    )
    check_explanation(found, "parameters", line, "map_location='cpu'")


@pytest.mark.parametrize(
    ("older", "line", "advice"),
    [
        (0, "Activations: tensors of forward passes hold", "a smaller batch"),
        (2000, "Activations: tensors of forward passes hold", "a smaller batch"),
        (6000, "most of them older than the recording.", "these tensors outlive them"),
    ],
)
def test_a_history_that_began_late_does_not_say_which_step_its_tensors_belong_to(
    older: int, line: str, advice: str
) -> None:
    forward = Purpose(
        "forward pass", 6900 * MIB, "train.py:13 train", 6400 * MIB, older=older * MIB
    )
    found = evidence(purposes=(forward,), step=None, history=True, recorded=True)
    check_explanation(found, "activations", line, advice)
