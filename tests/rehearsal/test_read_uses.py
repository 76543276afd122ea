"""What a program does with a value that it reads is recognized in the source of its line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.outcomes import EVENT, LOG, rehearsed
from tui.rehearsal.read_uses import ReadUse, find_use, reads_with
from tui.rehearsal.report import encode_rehearsal
from tui.rehearsal.verdict import judge
from tui.rehearsal.views import rehearsal_lines
from tui.watch.runs.agent_events import HostRead

PROGRAM = """\
import torch
from torch import isfinite

def step(loss, norm):
    if torch.isfinite(loss).all():
        print(loss.item())
    ok = torch.isfinite(
        norm
    ).all()
    if not ok:
        return norm.item()
    while isfinite(norm):
        norm = norm * 2
    return bool(
        torch.isfinite(norm)
    )

def other(loss):
    ok = loss > 0
    if ok:
        return loss.item()

def whole(loss):
    return torch.isfinite(loss).item() or loss.item()
"""
FINITE = (5, 7, 9, 10, 12, 14, 16, 24)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.mark.parametrize("line", range(1, 25))
def test_the_lines_that_use_isfinite(program: Path, line: int) -> None:
    covered = {*FINITE, 8, 15}  # a statement of several lines is one
    assert (find_use(str(program), line) is ReadUse.GUARD) == (line in covered)


@pytest.mark.parametrize("text", ["def (", "\0", ""])
def test_a_source_that_cannot_be_parsed_says_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    assert find_use(str(path), 1) is ReadUse.OTHER
    assert find_use(str(tmp_path / "gone.py"), 1) is ReadUse.OTHER


def test_a_guard_is_named_in_the_result(program: Path) -> None:
    reads = (HostRead(str(program), 6, "step", 3), HostRead(str(program), 10, "step", 3))
    assert reads_with(ReadUse.GUARD, reads) == reads[1:]
    log = replace(LOG, rehearsed=replace(EVENT, reads=reads))
    found = rehearsed(logs=(log,))
    lines = " ".join(" ".join(rehearsal_lines(found, judge(found), (), 80)).split())
    assert "NaN guard: isfinite reads false at train.py:10" in lines
    assert "Values that it only prints are zeros here: train.py:6." in lines
    uses = [each["use"] for each in encode_rehearsal(found, judge(found))["reads"]]
    assert uses == ["prints", "isfinite"]


BRANCHES = """\
def step(loss, best, kept):
    if loss.item() < best:
        best = loss.item()
    value = loss.item()
    print(f"loss {loss.item()}",
          loss.item())
    logger.info(loss.item())
    kept.append(loss.item())
    for _ in range(loss.item()):
        pass
    while value > 3:
        value = loss.item()
    more = 1 if loss.item() else 2
    assert loss.item() > 0
    return loss.item()

def other(value):
    value = value.item()
"""
USES = {2: "branches", 3: "branches", 4: "branches", 5: "prints", 6: "prints", 7: "prints"}
USES |= {9: "branches", 11: "branches", 12: "branches", 13: "branches", 14: "branches"}


@pytest.mark.parametrize("line", range(1, 19))
def test_the_lines_that_branch_and_those_that_print(tmp_path: Path, line: int) -> None:
    path = tmp_path / "train.py"
    path.write_text(BRANCHES, encoding="utf-8")
    assert find_use(str(path), line).value == USES.get(line, "other")


def test_a_branch_on_data_stands_next_to_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(BRANCHES, encoding="utf-8")
    log = replace(LOG, rehearsed=replace(EVENT, reads=(HostRead(str(path), 2, "step", 3),)))
    found = rehearsed(logs=(log,))
    lines = rehearsal_lines(found, judge(found), (), 80)
    assert lines[1].startswith("  depends on data: it branches at train.py:2 on values that are")
