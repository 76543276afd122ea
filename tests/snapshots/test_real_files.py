"""Files of real programs: what is read in them, held against plain sums over the raw file."""

from __future__ import annotations

import gzip
import pickle
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis
from tui.snapshots.analysis.sites import Query
from tui.snapshots.read.normalise import normalise

FILES = Path(__file__).with_name("files")
OF_AN_H100 = ("h100_leak", "h100_larger_batch", "h100_other_process")
"""Programs that ran out of its memory (docs/readings)."""
NAMES = ("training", "generation", "diffusion", *OF_AN_H100)


@cache
def raw(name: str) -> Any:
    if name in OF_AN_H100:
        return pickle.loads(gzip.decompress((FILES / f"{name}.pickle.gz").read_bytes()))
    return pickle.loads((FILES / f"{name}.pickle").read_bytes())


@cache
def device(name: str) -> DeviceAnalysis:
    analysis = Analysis(normalise(raw(name)))
    assert list(analysis.devices) == [0]
    return analysis.devices[0]


@pytest.mark.parametrize("name", NAMES)
def test_totals_are_plain_sums_over_the_segments(name: str) -> None:
    blocks = [block for segment in raw(name)["segments"] for block in segment["blocks"]]
    active = [block for block in blocks if block["state"] != "inactive"]
    summary, state = device(name).summary(), device(name).state()
    assert summary.reserved == sum(segment["total_size"] for segment in raw(name)["segments"])
    assert summary.allocated == sum(block["size"] for block in active)
    assert summary.requested == sum(block["requested_size"] for block in active)
    inactive = [block["size"] for block in blocks if block["state"] == "inactive"]
    assert summary.largest_free_block == state.largest_free_block == max(inactive, default=0)
    assert state.cached == sum(inactive) == summary.fragmentation.free
    assert state.allocations == len(active)
    assert state.doubts == ()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_about_them_is_in_doubt(name: str) -> None:
    assert device(name).faults == ()
    assert device(name).allocations.doubts == ()
    assert device(name).replay.doubts == ()


def test_peak_of_the_training_file_is_that_of_a_plain_forward_sum() -> None:
    live, peak, where = 0, 0, -1
    held: dict[int, tuple[int, str]] = {}
    at_peak: dict[int, tuple[int, str]] = {}
    for event, entry in enumerate(raw("training")["device_traces"][0]):
        if entry["action"] == "alloc":
            live += entry["size"]
            own = (
                f"{frame['filename']}:{frame['line']} {frame['name']}"
                for frame in entry["frames"]
                if "site-packages" not in frame["filename"] and "DeComFL" in frame["filename"]
            )
            held[entry["addr"]] = (entry["size"], next(own))
        elif entry["action"] == "free_completed":
            live -= entry["size"]
            del held[entry["addr"]]
        if live > peak:
            peak, where, at_peak = live, event, dict(held)
    replayed = device("training").replay
    assert (replayed.peak, replayed.peak_event) == (peak, where) == (1_783_664_516, 11_205)
    assert replayed.live_at_start == 0
    assert replayed.live_at_end == live
    sites: dict[str, int] = defaultdict(int)
    for size, site in at_peak.values():
        sites[site] += size
    rows = device("training").sites(Query(event=where)).listing().rows
    assert {row.key: row.bytes for row in rows} == sites
    assert rows[0].bytes == 500_957_184


def test_segments_of_the_training_file_come_one_by_one() -> None:
    one = device("training")
    assert one.state(-1).reserved == 0
    reserved = 0
    for event, entry in enumerate(raw("training")["device_traces"][0][:4000]):
        reserved += entry["size"] if entry["action"] == "segment_alloc" else 0
        if event % 400 == 0:
            state = one.state(event)
            assert (state.reserved, state.doubts) == (reserved, ())
            assert state.live + state.rounding + state.cached == reserved


def test_what_predates_the_trace_of_the_generation_file() -> None:
    summary = device("generation").summary()
    assert (summary.events, summary.live_peak_event) == (1, None)
    assert summary.live_peak == summary.live_at_end + 8
    assert summary.top[0].label == "allocated before the recording (no stack)"
    assert summary.top[0].bytes == 13_477_032_072


def test_the_diffusion_file_has_no_trace() -> None:
    summary = device("diffusion").summary()
    assert summary.events == 0
    assert summary.live_peak is None
    assert "no history was recorded" in summary.unavailable["live_peak"]
    assert summary.headline == (
        "7.1 GiB live of 7.6 GiB reserved at the end; nothing was recorded before"
    )
