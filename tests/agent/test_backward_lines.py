"""The line that passes a variable's graphs to a backward pass."""

from __future__ import annotations

import pytest

from workloads.agent.backward_lines import find_backward
from workloads.agent.source_lines import nested_codes

COLLECT = "losses = []\nfor x in xs:\n    loss = model(x)\n    losses.append(loss)\n"
EPISODE = (
    "def episode():\n"
    "    losses = []\n"
    "    for x in xs:\n"
    "        losses.append(model(x))\n"
    "    return -torch.stack(losses).mean()\n"
)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (COLLECT + "sum(losses).backward()", 5),
        (COLLECT + "total = torch.stack(losses).mean()\nscaler.scale(total).backward()", 6),
        (COLLECT + "sum(losses[-8:]).backward()", 5),
        (COLLECT + "for each in losses:\n    each.backward()", 6),
        (COLLECT + "total = sum([each for each in losses])\naccelerator.backward(total)", 6),
        (COLLECT + "torch.stack([each.mean() for each in losses]).sum().backward()", 5),
        (COLLECT + "torch.autograd.grad(sum(losses), parameters)", 5),
        (EPISODE + "loss = episode(20 if short else 400)\nloss.backward()", 7),
        (
            "class Router:\n"
            " def forward(self, x):\n"
            "  self.losses.append(x)\n"
            " def loss(self):\n"
            "  return sum(self.losses)\n"
            "loss = model(x) + router.loss()\n"
            "loss.backward()",
            7,
        ),
    ],
)
def test_a_line_that_ends_the_graphs_of_a_list_is_found(program: str, line: int) -> None:
    assert backward(program, "losses") == line


@pytest.mark.parametrize(
    "program",
    [
        COLLECT + "    loss.backward()",
        COLLECT + "    losses[-1].backward()",
        COLLECT + "    loss.backward()\n    print(sum(losses) / len(losses))",
        COLLECT + "total = torch.stack(losses).mean().item()\ntotal.backward()",
        COLLECT + "total = sum(losses)\ntotal = model(x)\ntotal.backward()",
        COLLECT + "loss.backward()\nprint(losses)",
        EPISODE + "loss = episode()\nprint(loss)",
    ],
)
def test_the_backward_pass_of_another_tensor_ends_no_graphs_of_a_list(program: str) -> None:
    assert backward(program, "losses") is None


def test_a_sum_over_steps_whose_terms_have_their_own_backward_is_not_passed_to_one() -> None:
    sums = "total = 0\nfor x in xs:\n    loss = model(x)\n    total = total + loss\n"
    assert backward(sums + "    loss.backward(retain_graph=True)", "total") is None
    assert backward(sums + "total.backward()", "total") == 5


def backward(program: str, name: str) -> int | None:
    """Return the line that passes a variable of a program's text to a backward pass."""
    codes = list(nested_codes(compile(program, "train.py", "exec")))
    found = find_backward(name, codes, codes)
    return found and found.place[1]


def retains(program: str, name: str) -> bool:
    """Return whether the backward pass that a line passes a variable to frees nothing."""
    codes = list(nested_codes(compile(program, "train.py", "exec")))
    found = find_backward(name, codes, codes)
    return found is not None and found.retains


SUM = "for x in xs:\n    total = total + model(x)\n"


def test_a_backward_pass_that_retains_its_graph_is_told_apart() -> None:
    assert retains(SUM + "    total.backward(retain_graph=True)", "total")
    assert retains(SUM + "    grads = torch.autograd.grad(total, w, create_graph=True)", "total")
    assert not retains(SUM + "total.backward(retain_graph=False)", "total")
    assert not retains(SUM + "total.backward()", "total")


def test_a_line_that_frees_the_graph_precedes_one_that_retains_it() -> None:
    program = SUM + "    total.backward(retain_graph=True)\ntotal.backward()"
    assert backward(program, "total") == 4
