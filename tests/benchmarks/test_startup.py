"""How long until the screen can be used, held against an empty Textual app on the same machine."""

from __future__ import annotations

import compileall
from pathlib import Path

import pytest

import tui
import workloads
from tests.benchmarks.startup import SIZES, starts

# The README's second command runs it too.
pytestmark = [pytest.mark.benchmark, pytest.mark.slow, pytest.mark.timeout(300)]

PAIRS = 7
MOST = 1.6
"""So much for a machine that is busy with other tests; ``python -m tests.benchmarks.startup`` on a
quiet one is what the README gives."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_screen_is_usable_within_1_6_times_an_empty_app(
    size: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # pip compiles what it installs; an editable installation is compiled when it is first run.
    for package in (tui, workloads):
        assert compileall.compile_dir(str(Path(package.__path__[0])), quiet=1)
    found = starts(PAIRS, size, tmp_path)
    with capsys.disabled():
        print(f"\nusable screen: {found}")
    assert found.ratio <= MOST
