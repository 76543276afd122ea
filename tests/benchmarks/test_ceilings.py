"""Whether a ceiling measured on this box is the same when it is measured again.

``pytest tests/benchmarks/test_ceilings.py -m benchmark`` prints the figures; the machine must be
quiet, and where it was not, the spread is printed and says nothing.
"""

from __future__ import annotations

import pytest

from tests.children.driver import Driver
from workloads import protocol
from workloads.ceilings import Ceiling

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

RUNNERS = 3
AT_MOST = 0.05
"""Between the lowest and the highest of the runners, a share of the lowest."""


def _ceilings() -> dict[str, Ceiling]:
    """Each kind as a fresh runner measures it that knows of no earlier one."""
    with Driver() as runner:
        runner.ready()
        assert runner.run("ceiling", kinds="common").status == "ok"
        told = [item for item in runner.seen if isinstance(item, protocol.CeilingMeasured)]
        return {item.ceiling.kind: item.ceiling for item in told}


def test_ceilings_of_three_runners_agree(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [_ceilings() for _ in range(RUNNERS)]
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
