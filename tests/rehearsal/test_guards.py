"""A read of ``isfinite``'s result is recognized in the source of its line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.outcomes import EVENT, LOG, rehearsed
from tui.rehearsal.guards import finite_reads, reads_finite
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
    assert reads_finite(str(program), line) == (line in covered)


@pytest.mark.parametrize("text", ["def (", "\0", ""])
def test_a_source_that_cannot_be_parsed_says_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    assert not reads_finite(str(path), 1)
    assert not reads_finite(str(tmp_path / "gone.py"), 1)


def test_a_guard_is_named_in_the_result(program: Path) -> None:
    reads = (HostRead(str(program), 6, "step", 3), HostRead(str(program), 10, "step", 3))
    assert finite_reads(reads) == reads[1:]
    log = replace(LOG, rehearsed=replace(EVENT, reads=reads))
    found = rehearsed(logs=(log,))
    lines = " ".join(" ".join(rehearsal_lines(found, judge(found), (), 80)).split())
    assert "NaN guard: isfinite reads false at train.py:10" in lines
    marks = [each["isfinite"] for each in encode_rehearsal(found, judge(found))["reads"]]
    assert marks == [False, True]
