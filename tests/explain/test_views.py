"""The first line and the account on a screen, as plain text, at several sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.scenes import container, evidence, growing, inventory, part
from tui.kit.lines import TextStyle, plain, width
from tui.snapshots.explain.explain import explain
from tui.snapshots.views.overview import (
    BESIDE_BAR,
    LEAST_BAR,
    account_lines,
    advice_lines,
    bar_cells,
    first_lines,
)

FOUND = explain(
    evidence(
        inventory(
            part("parameters", 16),
            container("losses", 6080, 190, graphs=190),
            remainder=96,
            steps=growing(100, 32, 190),
        )
    )
)
AT_80 = """\
Leak: losses (list of 190, train.py:13) grows by 32 MiB per step.
OOM at step 181, train.py:15 in train

Used 6.5 GiB of 6.5 GiB
  5.9 GiB  91% ■■■■■■■■■■■· leak               losses (list of 190, train.py:13)
  500 MiB   7% ■··········· outside torch      CUDA context, kernels, libraries
 96.0 MiB   1% ╸··········· activations        unnamed: autograd buffers,
                                               temporaries or C++
 16.0 MiB  <1% ············ parameters         model (GPT)
  4.0 MiB  <1% ············ fragmentation      cached beside live blocks"""


def shown(cells: int) -> list[str]:
    rows = [*first_lines(FOUND, cells), *account_lines(FOUND, cells)]
    return [plain(row).rstrip() for row in rows]


def test_at_80_cells() -> None:
    assert "\n".join(shown(80)) == AT_80


def test_the_failure_alone_is_in_the_color_of_errors_and_the_largest_cause_stands_out() -> None:
    *reason, last = first_lines(FOUND, 80)
    assert {span.style for span in last} == {TextStyle.BAD}
    assert {span.style for row in reason for span in row} == {TextStyle.STRONG}
    strong = [row[0].style for row in account_lines(FOUND, 80)[2:] if "%" in plain(row)]
    assert strong == [TextStyle.STRONG] + [TextStyle.QUIET] * 4


def test_a_line_that_names_its_process_keeps_it_with_the_failure() -> None:
    named = replace(FOUND, line=f"process 7: {FOUND.line}")
    assert named.split()[0] == "process 7: OOM at step 181, train.py:15 in train"
    assert named.split()[1] == FOUND.split()[1]
    assert replace(FOUND, failure="").split() == (FOUND.line, "")


@pytest.mark.parametrize(("cells", "bar"), [(48, 12), (80, 12), (90, 12), (110, 27), (200, 30)])
def test_the_bar_grows_once_the_explanations_have_their_room(cells: int, bar: int) -> None:
    words = max(len(row.description) for row in FOUND.account)
    assert bar_cells(FOUND.account, cells) == bar
    assert bar == LEAST_BAR or cells - BESIDE_BAR - bar >= words


@pytest.mark.parametrize("cells", [24, 40, 60, 80, 120, 200])
def test_nothing_is_wider_than_its_place_and_no_cause_is_lost(cells: int) -> None:
    rows = [*first_lines(FOUND, cells), *account_lines(FOUND, cells)]
    rows += advice_lines(FOUND.advice, cells)
    assert all(width(row) <= cells for row in rows)
    text = " ".join(" ".join(map(plain, rows)).split())
    assert "Leak: losses" in text
    assert "5.9 GiB 91%" in text
    if cells >= 40:
        assert all(f"{row.name}" in text for row in FOUND.account)


def test_many_small_rows_stand_in_one() -> None:
    taken = inventory(
        part("parameters", 16),
        part("gradients", 16),
        part("buffers", 8),
        part("optimizer state", 30, "optimizer (Adam)"),
        container("kept", 20, 4),
        remainder=6000,
    )
    found = explain(evidence(taken, streams_cached=1 << 20, stuck=3 << 20))
    text = "\n".join(plain(row) for row in account_lines(found, 120))
    assert "less than 1%: optimizer state 30.0 MiB" in text
    narrow = [plain(row) for row in account_lines(found, 60)]
    assert all(len(row) <= 60 for row in narrow)
    small = " ".join(" ".join(narrow).split()).partition("less than 1%: ")[2]
    assert small == " ".join(text.split()).partition("less than 1%: ")[2]
