"""Whether a ceiling measured on this box is the same when it is measured again.

``pytest tests/benchmarks/test_ceilings.py -m benchmark`` prints the figures. Three runners measure
in turns, so that what a neighbour of a virtual machine takes away for a minute meets all alike, and
the highest of its turns is what a runner has found. The machine must be quiet; where other
processes kept it busy, the spread is printed and says nothing.
"""

from __future__ import annotations

import contextlib

import pytest

from tests.children.driver import Driver
from workloads import protocol
from workloads.results import Ceiling

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

RUNNERS = 3
TURNS = 5
AT_MOST = 0.05
"""Between the lowest and the highest of the runners, a share of the lowest."""


def _ceilings(runner: Driver) -> dict[str, Ceiling]:
    """Each kind as this runner measures it now."""
    runner.seen.clear()
    assert runner.run("ceiling", kinds="common").status == "ok"
    told = [item for item in runner.seen if isinstance(item, protocol.CeilingMeasured)]
    return {item.ceiling.kind: item.ceiling for item in told}


def _highest(turns: list[dict[str, Ceiling]]) -> dict[str, Ceiling]:
    return {
        kind: max((turn[kind] for turn in turns), key=lambda ceiling: ceiling.value)
        for kind in turns[0]
    }


def test_ceilings_of_three_runners_agree(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.ExitStack() as stack:
        runners = [stack.enter_context(Driver()) for _ in range(RUNNERS)]
        for runner in runners:
            runner.ready()
        turns = [[_ceilings(runner) for runner in runners] for _ in range(TURNS)]
    runs = [_highest([turn[number] for turn in turns]) for number in range(RUNNERS)]
    spreads: dict[str, float] = {}
    for kind in runs[0]:
        values = [run[kind].value for run in runs]
        spreads[kind] = max(values) / min(values) - 1
        disturbed = sum(run[kind].disturbed for run in runs)
        with capsys.disabled():
            each = ", ".join(f"{value / 1e9:.1f}" for value in values)
            unit = "GB/s" if kind == "copy" else "GFLOP/s"
            print(
                f"\nceiling {kind}: {each} {unit}, {spreads[kind]:.1%} apart; "
                f"{disturbed} of {RUNNERS} disturbed by other processes"
            )
    if any(ceiling.disturbed for run in runs for ceiling in run.values()):
        pytest.skip("other processes used the CPU: the spread says nothing")
    assert max(spreads.values()) <= AT_MOST, spreads
