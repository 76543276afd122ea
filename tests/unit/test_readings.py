"""What is said of a time: its interval, and why there is none."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch

from tests.screens.results import timing
from tests.unit.test_study import Scripted
from tui.kit.lines import TextStyle, plain
from tui.kit.tables import table_lines
from tui.runs.views.chart import chart_lines
from workloads.declare.study import Study
from workloads.measure.cpu_share import Others
from workloads.protocol.messages import Run, make_empty_result
from workloads.protocol.results import UNTRUSTED, Chart, DataColumn, Rates, Series, Table
from workloads.runner import reporting

NO_RATES = Rates(None, None, None)


@pytest.fixture(autouse=True)
def _all_cores_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(4)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)


def test_a_time_beside_other_processes_has_no_interval_and_says_why() -> None:
    busy = reporting.drop_unreliable_interval(timing(other_cpu_cores=1.2), "cpu")
    assert busy.ci95_s is None
    assert "known" not in busy.stopped_by
    reason = reporting.absences(busy, NO_RATES)["time.ci95_s"]
    assert reason == "other programs disturbed the run"


@pytest.mark.parametrize(
    ("quiet", "said"),
    [
        ("time limit of 2 s", "time limit of 2 s; other programs were running"),
        ("median known to ±1.00%", "its target; other programs were running"),
    ],
)
def test_the_end_of_a_disturbed_timing_names_its_own_reason(quiet: str, said: str) -> None:
    busy = replace(timing(other_cpu_cores=1.2), stopped_by=quiet)
    assert reporting.drop_unreliable_interval(busy, "cpu").stopped_by == said


@pytest.mark.parametrize(("cores", "device"), [(0.05, "cpu"), (None, "cpu"), (3.0, "cuda")])
def test_a_quiet_machine_and_a_gpu_keep_theirs(cores: float | None, device: str) -> None:
    quiet = timing(other_cpu_cores=cores)
    assert reporting.drop_unreliable_interval(quiet, device) == quiet


def test_blocks_that_resemble_their_neighbours_say_so() -> None:
    alike = replace(timing(), ci95_s=None, blocks=9, block_times_s=tuple(range(1, 10)))
    reason = reporting.absences(alike, NO_RATES)["time.ci95_s"]
    assert reason.startswith("neighbouring blocks are too much alike")


@pytest.mark.parametrize(("p95_s", "kept"), [(2.5e-3, False), (2.71e-3, True), (None, True)])
def test_a_p95_below_the_median_of_the_blocks_is_left_out(p95_s: float | None, kept: bool) -> None:
    measured = timing(median_s=2.71e-3, p95_s=p95_s)
    actual, reason = reporting.drop_unreliable_p95(measured)
    assert (actual == measured, actual.p95_s) == (kept, p95_s if kept else None)
    assert reason.keys() == (set() if kept else {"time.p95_s"})


@pytest.mark.parametrize(
    ("cores", "device", "words"),
    [
        (0.05, "cpu", ""),
        (0.08, "cpu", "up to 8% of the time may be that of other programs"),
        (0.18, "cpu", "up to 18% of the time may be that of other programs"),
        (0.32, "cpu", f"other programs used 0.3 cores: {UNTRUSTED}"),
        (0.08, "cuda", ""),
    ],
)
def test_a_little_time_of_other_programs_is_named(cores: float, device: str, words: str) -> None:
    shared = timing(other_cpu_cores=cores)
    found = [line for line in reporting.warnings(shared, device) if "other programs" in line]
    assert found == ([words] if words else [])


@pytest.mark.parametrize(("launch_s", "named"), [(0.81e-3, False), (0.99e-3, True)])
def test_a_call_that_takes_longer_than_its_launch_is_not_bound_by_it(
    launch_s: float, named: bool
) -> None:
    measured = timing(
        clock="device",
        median_s=1e-3,
        device_median_s=1e-3,
        wall_median_s=1e-3,
        enqueue_s=launch_s,
    )
    assert (
        "launch-bound: launching takes 99% of the time" in reporting.warnings(measured, "cuda")
    ) is named


def test_fewer_than_two_page_faults_are_not_rounded_to_none() -> None:
    faulty = timing(median_s=1e-5, faults_per_call=0.3)
    assert "0.3 page faults per call are part of the time" in reporting.warnings(faulty, "cpu")


@pytest.mark.parametrize(
    ("apart", "words"),
    [
        (0.05, ""),
        (0.5, "noisy: quartiles 50% apart"),
        (1.25, f"noisy: quartiles 1.2x the median apart: {UNTRUSTED}"),
        (101.27, f"noisy: quartiles 100x the median apart: {UNTRUSTED}"),
    ],
)
def test_noise_is_given_with_the_digits_that_it_has(apart: float, words: str) -> None:
    noisy = replace(timing(), median_s=1e-3, q1_s=1e-4, q3_s=1e-4 + apart * 1e-3)
    assert [line for line in reporting.warnings(noisy, "cuda") if "noisy" in line] == [
        *([words] if words else [])
    ]


@pytest.mark.parametrize(
    ("device", "cpu_s", "warned"), [("cpu", 2.0, True), ("cpu", 0.1, False), ("cuda:0", 2.0, False)]
)
def test_a_table_timed_beside_other_processes_is_named(
    device: str, cpu_s: float, warned: bool
) -> None:
    study = Study(1.0, "wall", Scripted(), lambda _study: None)
    study.beside["table ways"] = Others(1.0, cpu_s)
    study.beside["figure cold_over_warm"] = Others(1.0, cpu_s)
    study.beside["figure naive_flop_per_s"] = Others(1.0, cpu_s)
    study.table("ways", "three ways to add", ("time", "s"))
    empty = make_empty_result(Run("1", "matmul", device, {}, {}))
    found = reporting.add_findings(empty, study)
    assert [table.unreliable for table in found.tables] == [warned]
    said = found.warnings
    named = (
        'the table "three ways to add", the figure "time of a cold over a warm call" and the'
        ' figure "naive rate" are unreliable'
    )
    assert [line.partition(" cores: ")[2] for line in said] == ([named] if warned else [])
    noisy = "noisy: quartiles 12% apart"
    doubted = replace(
        empty,
        time=timing(other_cpu_cores=3.5),
        warnings=(f"other programs used 3.5 cores: {UNTRUSTED}", noisy),
    )
    said = reporting.add_findings(doubted, study).warnings
    assert warned == any("used up to 3.5 cores" in line for line in said)
    assert [line.partition(" cores: ")[2] or line for line in said] == (
        [noisy, f"{named}; {UNTRUSTED}"] if warned else [UNTRUSTED, noisy]
    )


def test_an_unreliable_table_or_chart_says_so_in_its_title() -> None:
    columns = (DataColumn("way"), DataColumn("time", "s"))
    table = Table("ways", "three ways to add", columns, (("loop", 1.0),), unreliable=True)
    title, *_ = table_lines(table, {}, 80)
    assert plain(title) == "! three ways to add (unreliable)"
    assert title[0].style is TextStyle.NOTE
    chart = Chart(
        "over_n",
        "time over n",
        "n",
        (1.0, 2.0, 3.0),
        (Series("loop", "s", (1.0, 2.0, 4.0)),),
        marks=("the loop loses from n=2",),
        unreliable=True,
    )
    rows = chart_lines(chart, {}, 80)
    assert any("! time over n (unreliable)" in plain(row) for row in rows)
    mark = next(row for row in rows if "loses from" in plain(row))
    assert TextStyle.GOOD not in [span.style for span in mark]
    reliable = chart_lines(replace(chart, unreliable=False), {}, 80)
    assert not any("unreliable" in plain(row) for row in reliable)
