"""Sums that keep graphs, collections of CUDA graphs, optimizer state, leaks beside a cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.explain.scenes import (
    FOREACH,
    GIB,
    MIB,
    PROGRAM,
    TRAIN,
    check_explanation,
    container,
    evidence,
    growing,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import NamedBytes
from tui.snapshots.explain.source_lines import SourceLine
from workloads.agent import UNSTORED_STATE

MODEL = part("parameters", 16, count=4)
ENDED = growing(100, 0, 20)
"""Steps of a training that did not grow, before an evaluation."""


def graphs_of_shapes(*, free_mib: int, grows: bool) -> Evidence:
    """Return a dictionary of tensors beside memory that is free in the pools of CUDA graphs."""
    steps = growing(100, 40, 80) if grows else ()
    taken = inventory(MODEL, container("graphs", 3300, 28, kind="dict"), steps=steps)
    reserved = taken.allocated + free_mib * MIB
    return evidence(taken, reserved=reserved, stuck=0, graphs_cached=free_mib * MIB, largest=0)


def test_the_inputs_and_outputs_of_cuda_graphs_are_no_leak() -> None:
    found = graphs_of_shapes(free_mib=3300, grows=False)
    check_explanation(found, "CUDA graphs", "their private pools hold 3.2 GiB", "share one pool")
    assert "leak" not in {row.name for row in explain(found).account}


def test_a_collection_that_grows_with_each_step_is_a_leak_beside_cuda_graphs() -> None:
    found = graphs_of_shapes(free_mib=3300, grows=True)
    check_explanation(found, "leak", "Leak: graphs (dict of 28", "bound the length of graphs")


@pytest.mark.parametrize("line", [None, Frame(PROGRAM, 20, "train")])
def test_a_sum_of_passes_keeps_them_unless_a_backward_pass_follows(line: Frame | None) -> None:
    total = variable("total", 0, 300, shape=(), accumulates=True, backward=line)
    found = evidence(inventory(MODEL, total, remainder=6500, steps=ENDED))
    keeps = "total (a graph of 300 nodes, train.py:12) keeps those of each pass"
    explanation = explain(found)
    assert explanation.cause == "activations"
    assert (keeps in explanation.conclusion) == (line is None)
    assert ("add item() or detach() to total" in explanation.advice[0].what) == (line is None)


def test_an_activation_that_a_loop_passes_from_layer_to_layer_is_no_sum() -> None:
    layers = part("parameters", 1600, count=48)
    x = variable("x", 64, 96, accumulates=True)
    found = evidence(inventory(layers, x, remainder=5200, steps=ENDED))
    assert "each pass" not in explain(found).conclusion


def test_a_dictionary_of_metrics_with_graphs_is_a_sum_over_steps() -> None:
    stats = container("stats", 0, 1, kind="dict", length=1, graphs=1, graph_nodes=626)
    found = evidence(inventory(MODEL, stats, remainder=6600, steps=growing(100, 64, 100)))
    check_explanation(found, "leak", "Leak: stats (a graph of 626 nodes, train.py:13)", "item()")


SUM = SourceLine(PROGRAM, 12, "self.total = self.total + loss")
THREE = ((1, 1000), (2, 3000), (3, 5000))
"""Bytes after each of three steps, in MiB."""


def sum_of_three(**more: Any) -> Evidence:
    """Return a run that ran out in its fourth step, with a number whose graph may be a sum."""
    facts = {"nodes": 254, "shape": (), "scope": "attribute of Trainer", **more}
    lines, steps = facts.pop("lines", ()), facts.pop("steps", THREE)
    rest = facts.pop("rest", 0)
    total, loss = variable("Trainer.total", 0, **facts), variable("loss", 0, rest, shape=())
    state = part("optimizer state", 400, "optimizer (AdamW)")
    held = (MODEL, state, total, loss) if rest else (MODEL, state, total)
    taken = inventory(*held, other=6000, steps=steps)
    return evidence(taken, lines=lines)


@pytest.mark.parametrize(
    "known", [{"lines": (SUM,)}, {"accumulates": True}, {"rest": 84}], ids=["line", "loop", "graph"]
)
def test_a_sum_that_fills_the_device_in_a_few_steps_is_a_leak(known: dict[str, Any]) -> None:
    line = "Leak: Trainer.total (a graph of 254 nodes, train.py:12) grows by 2 GiB per step."
    check_explanation(sum_of_three(**known), "leak", line, "item()")


@pytest.mark.parametrize(
    "facts",
    [
        {},  # neither its line nor its graph shows a sum
        {"rest": 127},  # two passes at most
        {"lines": (SUM,), "shape": (64, 64)},
        {"lines": (SourceLine(PROGRAM, 12, "self.total = loss"),)},
        # Memory did not grow evenly, or only once.
        {"lines": (SUM,), "steps": ((1, 1000), (2, 3000), (3, 3100))},
        {"lines": (SUM,), "steps": ((1, 1000), (2, 3000))},
        {"lines": (SUM,), "steps": ((1, 1000), (2, 1010), (3, 1020))},
    ],
)
def test_a_few_steps_without_a_sum_or_an_even_growth_are_no_leak(facts: dict[str, Any]) -> None:
    assert explain(sum_of_three(**facts)).cause != "leak"


def list_of_three(**more: Any) -> Evidence:
    """Return a run that ran out in its fourth step, with a list of three large tensors."""
    facts = {"steps": THREE, "mib": 6000, **more}
    steps, mib = facts.pop("steps"), facts.pop("mib")
    kept = container("kept", mib, facts.pop("tensors", 3), **{"length": 3, **facts})
    return evidence(inventory(MODEL, kept, remainder=6500 - mib, steps=steps))


@pytest.mark.parametrize("more", [{}, {"mib": 1, "graphs": 3}], ids=["tensors", "graphs"])
def test_a_list_that_fills_the_device_in_a_few_steps_is_a_leak(more: dict[str, Any]) -> None:
    line = "Leak: kept (list of 3, train.py:13) grows by 2 GiB per step."
    check_explanation(list_of_three(**more), "leak", line, "kept")


@pytest.mark.parametrize(
    "facts",
    [
        {"steps": ((1, 1000), (2, 3000), (3, 3100))},
        {"mib": 1},  # the growth is somebody else's
        {"length": 6},
        {"tensors": 2},
        {"enlarges": False},
        {"kind": "limited deque"},
        {"empties": Frame(PROGRAM, 14, "train")},
        {"mib": 1, "graphs": 3, "backward": Frame(PROGRAM, 14, "train")},
    ],
)
def test_a_short_list_without_a_tensor_for_each_step_is_no_leak(facts: dict[str, Any]) -> None:
    assert explain(list_of_three(**facts)).cause != "leak"


def test_what_a_line_empties_later_is_a_leak_that_names_the_line() -> None:
    cache = container("cache", 4700, 150, kind="dict", empties=Frame(PROGRAM, 14, "train"))
    found = evidence(inventory(MODEL, cache, remainder=100, steps=growing(100, 31, 151)))
    line = "per step; train.py:14 removes items, but later."
    check_explanation(found, "leak", line, "let train.py:14 remove items of cache sooner")


def test_a_leak_beside_another_cause_has_a_remedy() -> None:
    keep = container("keep", 2500, 125)
    found = evidence(
        inventory(keep, main=(TRAIN,)),
        requested=3000 * MIB,
        needed=3000 * MIB,
        reserved=5600 * MIB,
        total=8 * GIB,
        free=1500 * MIB,
        largest=2900 * MIB,
        stuck=3100 * MIB,
        stack=(TRAIN,),
    )
    explanation = explain(found)
    assert explanation.cause == "fragmentation"
    whats = [remedy.what for remedy in explanation.advice]
    assert "expandable_segments" in whats[0]
    assert any(what.startswith("if sizes grow from step to step") for what in whats)
    assert any(what.startswith("bound the length of keep") for what in whats)
    alone = replace(found, largest=1000 * MIB)
    assert not any("sizes grow" in remedy.what for remedy in explain(alone).advice)


def test_pieces_just_too_small_are_not_rounded_to_the_request() -> None:
    found = evidence(
        requested=1266 * MIB,
        needed=1266 * MIB,
        largest=1229 * MIB,
        reserved=7 * GIB,
        allocated=5 * GIB,
        stuck=2 * GIB,
        free=100 * MIB,
    )
    assert "in pieces of at most 1.2 GiB; 37 MiB more than that was requested." in (
        explain(found).conclusion
    )


@pytest.mark.parametrize(
    ("owner", "what", "why"),
    [
        ("optimizer (SGD)", "without this state", "keeps one value for each parameter: 2 GiB"),
        ("optimizer (AdamW)", "8-bit Adam", "keeps 2 values for each parameter: 3.9 GiB"),
        ("optimizer (Lion)", "8-bit Adam", "optimizer (Lion) holds 1.8 GiB so far"),
        ("optimizer (AdamW8bit)", "shard the state", "state holds 1.8 GiB so far"),
    ],
)
def test_state_is_counted_for_known_optimizers(owner: str, what: str, why: str) -> None:
    stack = (Frame(FOREACH[0].filename, 180, "_init_group"), *FOREACH[1:])
    found = evidence(
        inventory(
            part("parameters", 2000),
            part("gradients", 2000),
            part("optimizer state", 1800, owner),
            main=stack,
        ),
        stack=stack,
    )
    explanation = explain(found)
    assert explanation.cause == "optimizer state"
    assert what in explanation.advice[0].what
    assert why in explanation.advice[0].why


@pytest.mark.parametrize("is_new", [True, False])
def test_the_momentum_of_a_first_step_is_state_and_later_requests_are_temporaries(
    is_new: bool,
) -> None:
    stack = (Frame(FOREACH[0].filename.replace("adam", "sgd"), 454, "_multi_tensor_sgd"), TRAIN)
    name = UNSTORED_STATE if is_new else "momentum_buffer"
    state = part("optimizer state", 1800, "opt (SGD)", largest=(NamedBytes(name, 1800 * MIB),))
    found = evidence(
        inventory(part("parameters", 2000), part("gradients", 2000), state, main=stack),
        stack=stack,
    )
    assert explain(found).cause == ("optimizer state" if is_new else "temporaries")
