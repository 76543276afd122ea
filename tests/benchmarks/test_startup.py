"""How long until the GPUs' figures, held against an empty Textual app on the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.startup import FIGURES, SIZES, USABLE, driver, starts
from tests.compiled import compile_program

# The README's second command runs it too.
pytestmark = [pytest.mark.benchmark, pytest.mark.slow, pytest.mark.timeout(300)]

PAIRS = 7
MOST = 2.0
"""Of three pairs in four. What else is busy slows the workbench, which starts three processes, more
than an empty app: beside a busy loop on two cores 1.5, where ``python -m tests.benchmarks.startup``
on the quiet machine gives 1.4, which is in ``docs/measurements.md``."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("words", [FIGURES, USABLE], ids=["figures", "usable"])
def test_it_is_on_the_screen_within_twice_the_time_of_an_empty_app(
    words: Sequence[str],
    size: tuple[int, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compile_program()
    found = starts(PAIRS, size, words, driver(tmp_path / "driver"))
    with capsys.disabled():
        print(f"\n{words[0]}: {found}")
    low, _, _ = found.ratios
    assert low <= MOST
