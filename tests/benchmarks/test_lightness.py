"""The budgets of an idle and of a working screen, beside nvitop and an empty Textual app.

``pytest tests/benchmarks/test_lightness.py -m benchmark -s`` prints the table.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks.lightness import (
    EMPTY,
    MOST_BYTES,
    MOST_CPU_TIME,
    NO_HISTORY,
    NVITOP,
    OURS,
    TERMINALS,
    compare,
    running,
    table,
)
from benchmarks.startup import driver

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

MOST_MEMORY = 90 * 2**20
MOST_BYTE_PER_S = 32_000
"""What a link of 256 kbit/s carries."""


@pytest.mark.skipif(
    importlib.util.find_spec("nvitop") is None,
    reason="nvitop is not installed: pip install -c constraints.txt -e '.[benchmark]'",
)
def test_an_idle_screen_costs_little_more_than_nvitop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = (OURS, NO_HISTORY, NVITOP, EMPTY)
    variables = {**driver(tmp_path / "driver"), **TERMINALS["truecolor"]}
    ours, _, nvitop, empty = costs = compare(programs, variables, 60.0)
    with capsys.disabled():
        print(f"\n{table(costs)}")
        print(f"usable screen: {ours.usable_s / empty.usable_s:.2f} times the empty app's")
    assert ours.byte_per_min <= MOST_BYTES * nvitop.byte_per_min
    assert ours.cpu_s_per_min <= MOST_CPU_TIME * nvitop.cpu_s_per_min
    assert ours.front_byte <= MOST_MEMORY


def test_a_working_screen_sends_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = running(driver(tmp_path / "driver"), 30.0, (80, 24))
    with capsys.disabled():
        print(
            f"\n{found.byte_per_s / 1e3:.1f} kB/s; a key is answered after "
            f"{found.key_median_s * 1e3:.0f} ms, 95th percentile {found.key_p95_s * 1e3:.0f} ms"
        )
    assert found.byte_per_s <= MOST_BYTE_PER_S
