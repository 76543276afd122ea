"""A remedy repeats what stands in the program's line, and nothing that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.scenes import PROGRAM, evidence, growing, inventory, part, variable
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.explanation import Remedy
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.source_lines import SourceLine, adds_to, find_added_term, find_line

LINES = (SourceLine("a.py", 3, "total += loss"), SourceLine("a.py", 4, "x = y"))


@pytest.mark.parametrize(
    ("text", "name", "term"),
    [
        ("total = total + net(x).square().mean()", "total", "net(x).square().mean()"),
        ("  total = loss + total", "total", "loss"),
        ("total += out['loss']", "total", "out['loss']"),
        ("self.total += self.loss  # the sum", "self.total", "self.loss"),
        ("total = total + a * b", "total", ""),
        ("total = total * decay", "total", ""),
        ("total -= loss", "total", ""),
        ("other += loss", "total", ""),
        ("total += loss; steps += 1", "total", ""),
        ("total = step(total, loss)", "total", ""),
        ("total = total + sum(", "total", ""),
        (f"total += {'a' * 41}", "total", ""),
        ("", "total", ""),
        ("\0", "total", ""),
    ],
)
def test_the_added_term_is_found(text: str, name: str, term: str) -> None:
    assert find_added_term(text, name) == term


@pytest.mark.parametrize(
    ("text", "name", "adds"),
    [
        ("self.total = self.total + loss", "Trainer.total", True),
        ("self.total += loss", "Trainer.total", True),
        ("trainer.stats.total = loss + trainer.stats.total", "Stats.total", True),
        ("self.total = loss", "Trainer.total", False),
        ("self.total = self.other + loss", "Trainer.total", False),
        ("self.total = self.total * loss", "Trainer.total", False),
        ("total = total + loss", "Trainer.total", False),
        ("for x in y:", "total", False),
    ],
)
def test_a_line_that_adds_to_a_sum_is_told_from_one_that_assigns_it(
    text: str, name: str, adds: bool
) -> None:
    assert adds_to(text, name) is adds


def test_a_line_is_found_by_its_frame() -> None:
    assert find_line(LINES, Frame("a.py", 4, "train")) == "x = y"
    assert find_line(LINES, Frame("b.py", 4, "train")) == ""
    assert find_line(LINES, None) == ""


def _advise(text: str = "", *, retains: bool = False) -> list[Remedy]:
    total = replace(variable("total", 0, 1772, shape=()), retains=retains)
    taken = inventory(
        part("parameters", 16),
        total,
        variable("loss", 0, 31, shape=()),
        other=6000,
        remainder=200,
        steps=growing(100, 96, 66),
    )
    lines = (SourceLine(PROGRAM, 12, text),) if text else ()
    return list(explain(replace(evidence(taken), lines=lines)).advice)


def test_the_remedy_of_a_sum_has_the_programs_own_term() -> None:
    told = _advise("total = total + net(x).mean()")[0].what
    assert told.startswith("add net(x).mean().item() or net(x).mean().detach() to total")
    assert _advise()[0].what.startswith("add item() or detach() of each term to total")


@pytest.mark.parametrize("retains", [True, False])
def test_only_a_backward_pass_that_retains_its_graph_is_told_not_to(retains: bool) -> None:
    told = "\n".join(remedy.what for remedy in _advise(retains=retains))
    assert ("retain_graph" in told) == retains
