"""What other processes used of the CPU."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from unittest.mock import patch

import pytest

from tests.catalog.runs import ok
from tests.hog import busy
from tests.tiers import VARIANT
from workloads.measure import cpu_share, timing
from workloads.measure.cpu_share import CpuTime, now, other_cores
from workloads.measure.timing import Control
from workloads.protocol.messages import Compare
from workloads.protocol.results import Setting
from workloads.runner import worker


def test_what_is_not_ours_is_theirs() -> None:
    assert other_cores(CpuTime(10.0, 4.0), CpuTime(13.0, 5.0), 1.0) == pytest.approx(2.0)


def test_clocks_that_disagree_by_a_tick_give_zero_and_nothing_negative() -> None:
    assert other_cores(CpuTime(10.0, 4.0), CpuTime(10.5, 4.51), 1.0) == 0.0


@pytest.mark.parametrize("pair", [(None, CpuTime(1, 1)), (CpuTime(1, 1), None)])
def test_unknown_stays_unknown(pair: tuple[CpuTime | None, CpuTime | None]) -> None:
    assert other_cores(*pair, 1.0) is None


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@LINUX
def test_a_process_that_keeps_a_core_busy_is_seen() -> None:
    with busy(ours=False):
        before, began = now(), time.monotonic()
        seen = 0.0
        while seen < 0.3 and time.monotonic() - began < 20:
            time.sleep(0.1)
            seen = other_cores(before, now(), time.monotonic() - began) or 0.0
    assert seen >= 0.3


@LINUX
def test_what_a_child_takes_is_ours_while_it_lives_and_once_it_has_ended() -> None:
    def ours() -> float:
        found = now()
        assert found is not None
        return found.ours

    first, own = ours(), time.process_time()
    with busy(ours=True):
        deadline = time.monotonic() + 20
        while ours() - first - (time.process_time() - own) < 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        looked, living = time.monotonic(), ours()
    assert living - first - (time.process_time() - own) >= 0.2
    # It has been waited for: counted once still, and not lost.
    assert -0.05 < ours() - living < 2 * (time.monotonic() - looked) + 0.1


@LINUX
def test_in_a_rank_what_its_siblings_take_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_share, "_root", None)
    with busy(ours=True) as sibling:
        # A child that asks for the tree of its parent, this process, of which the sibling is one.
        code = (
            "import os, time\n"
            "from workloads.measure import cpu_share\n"
            "cpu_share.count_descendants_of(os.getppid())\n"
            "first = cpu_share.now().ours\n"
            "until = time.monotonic() + 20\n"
            "while cpu_share.now().ours - first < 0.3 and time.monotonic() < until:\n"
            "    time.sleep(0.05)\n"
            "print(cpu_share.now().ours - first - time.process_time())\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
        )
        assert sibling
    assert float(told.stdout) > 0.0


def test_a_comparison_beside_another_process_says_so() -> None:
    request = Compare("c", "matmul", "cpu", {"n": 32}, "mkldnn.enabled", (False, True), {}, 3)
    cpu_s = itertools.count(0.0, 1000.0)
    with (
        patch.object(cpu_share, "now", lambda: CpuTime(next(cpu_s), 0.0)),
        patch.object(timing, "BLOCK_S", 1e-4),
    ):
        found = worker.compare_blocks(request, Control(), lambda _: None)
    assert found.status == "ok"
    (warning,) = found.warnings
    assert warning.startswith("other programs used ")
    assert warning.endswith(" cores: do not trust this verdict")


@pytest.mark.parametrize(
    ("name", "parameters", "finding"),
    [
        ("cnn_training", {"width": 4, "batch": 8, "size": 16}, "table split"),
        pytest.param(
            "varying_shapes",
            {"size": 8, "count": 2, "batch": 1, "channels": 2},
            "table sizes",
            marks=VARIANT,
        ),
        ("naive_timing", {"n": 64}, "figure naive time"),
        pytest.param("data_loading", {"samples": 64, "batch": 32}, "table workers", marks=VARIANT),
    ],
)
def test_what_a_study_times_itself_is_watched_too(
    name: str, parameters: dict[str, Setting], finding: str
) -> None:
    cpu_s = itertools.count(0.0, 1e6)
    with patch.object(cpu_share, "now", lambda: CpuTime(next(cpu_s), 0.0)):
        found = ok(name, **parameters)
    (warning,) = (line for line in found.warnings if "used up to" in line)
    kind, _, label = finding.partition(" ")
    titles = {table.name: table.title for table in found.tables}
    named = f'the {kind} "{titles.get(label, label)}"'
    assert named in warning.partition(" cores: ")[2]
