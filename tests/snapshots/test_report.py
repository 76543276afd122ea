"""What is handed on: JSON, Markdown, and both without user names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from tests.snapshots.generator import Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tests.snapshots.scenes import MIB, Raw, oom, scene, segment
from tui.snapshots.analysis.analysis import Analysis, compare
from tui.snapshots.analysis.report import (
    diff_markdown,
    diff_report,
    snapshot_markdown,
    snapshot_report,
)
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.model.calls import ReportArguments
from workloads.protocol import wire

DEVICE_KEYS = {
    "index",
    "segments",
    "blocks",
    "reserved",
    "allocated",
    "requested",
    "largest_free_block",
    "events",
    "live_at_start",
    "live_peak",
    "live_peak_event",
    "live_at_end",
    "ooms",
    "top",
}
OOM_KEYS = {
    "event",
    "asked",
    "device_free",
    "live",
    "reserved",
    "largest_free_block",
    "cause",
    "top",
}


def failed() -> Analysis:
    return scene([segment(1 << 30, [("allocated", 300)])], oom(100, 50))


def test_shape_of_the_report() -> None:
    report = snapshot_report(failed(), ("odd",), ReportArguments("json", event=0))
    assert {"file", "devices", "warnings", "unavailable"} <= report.keys()
    assert report["warnings"] == ["odd"]
    (device,) = report["devices"]
    assert device.keys() >= DEVICE_KEYS
    (entry,) = device["ooms"]
    assert entry.keys() >= OOM_KEYS
    assert entry["cause"] == "unknown"
    assert entry["asked_at"] == "train.py:9 backward"
    assert entry["growth"] is None
    assert entry["top"][0]["frame"] == "train.py:5 train_step"
    assert entry["total"] is None
    assert "devices.0.ooms.0.total" in report["unavailable"]
    assert device["at"]["live"] == 300 * MIB


def paths_of_nulls(value: Any, path: str = "") -> list[str]:
    if value is None:
        return [path]
    items = enumerate(value) if isinstance(value, list) else value.items()
    return [
        path_of_null
        for key, item in items
        if item is None or isinstance(item, (dict, list))
        for path_of_null in paths_of_nulls(item, f"{path}.{key}".lstrip("."))
    ]


@given(SEEDS, OPTIONS)
@settings(max_examples=20, deadline=None)
def test_every_absence_has_its_reason(seed: int, options: Options) -> None:
    report = snapshot_report(analysed(seed, options)[2], (), ReportArguments("json"))
    json.dumps(report, allow_nan=False)
    for path in paths_of_nulls(report["devices"]):
        if path.endswith(("unused", "clumped", "kind", "time_us")):
            continue  # told by what stands beside them
        assert f"devices.{path}" in report["unavailable"]


def test_a_device_or_an_event_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="has no device 3; it holds 0"):
        snapshot_report(failed(), (), ReportArguments("json", device=3))
    with pytest.raises(ValueError, match="has no event 9; it has events 0 to 0"):
        snapshot_report(failed(), (), ReportArguments("json", event=9))


def test_markdown_of_an_oom() -> None:
    text = snapshot_markdown(failed(), ("a `b` | c",), ReportArguments("markdown", event=0))
    assert "### OOM at event 0\n" in text
    assert "| device free | 50.0 MiB |" in text
    assert "| device total | n/a |" in text
    assert "| 300 MiB | 100% | 1 | `train.py:5 train_step` |" in text
    assert "> train.py:9 backward" in text
    assert "- a \\`b\\` \\| c" in text


def test_the_heading_of_the_advice_depends_on_an_oom() -> None:
    idle = scene([segment(1 << 30, [("free", 900)])])
    text = snapshot_markdown(idle, (), ReportArguments("markdown"))
    assert "What would free cached memory:" in text
    assert "would return memory to other processes" in text
    assert "What would help" not in text


def test_what_would_not_help_stands_below_what_would() -> None:
    holed = [part for _ in range(4) for part in (("free", 60), ("allocated", 1))]
    off = {"expandable_segments": False}
    text = snapshot_markdown(
        scene([segment(1 << 30, holed)], oom(100, 10), settings=off),
        (),
        ReportArguments("markdown"),
    )
    helps, _, vain = text.partition("What would help:")[2].partition("Would not help: ")
    assert "expandable\\_segments:True" in helps
    assert "empty" not in helps
    assert vain.startswith("torch.cuda.empty\\_cache() (the allocator had already released")


@given(SEEDS, OPTIONS)
@settings(max_examples=10, deadline=None)
def test_markdown_of_any_file(seed: int, options: Options) -> None:
    assert snapshot_markdown(
        analysed(seed, options)[2], (), ReportArguments("markdown")
    ).startswith("# Allocator snapshot")


def test_two_files_compared() -> None:
    a = scene([segment(1 << 30, [("allocated", 3)])])
    b = scene([segment(1 << 30, [("allocated", 5)], line=6)])
    differences = compare(a, b)
    report = diff_report(differences, "a", "b")
    assert [site["change"] for site in report["devices"][0]["sites"]] == ["new", "gone"]
    text = diff_markdown(differences, "a", "b")
    assert "| new | 5.0 MiB | 0 B | 5.0 MiB | 0 to 1 | `train.py:6 train_step` |" in text
    assert "No site differs." in diff_markdown(compare(a, a), "a", "a")


def test_facts_go_over_the_wire() -> None:
    device = failed().devices[0]
    facts = (judge(device, 0), device.summary(), device.state(0), device.timeline(3))
    for fact in (*facts, device.part(0, "site", "")):
        line = wire.encode(fact)
        assert wire.decode(line, (type(fact),)) == fact


@pytest.mark.parametrize("entries", [(), (oom(8, 0),)])
def test_markdown_has_no_table_of_memory_without_a_stack(entries: tuple[Raw, ...]) -> None:
    bare = scene([segment(0, [("allocated", 4)], stacks=False)], *entries)
    assert "by site" not in snapshot_markdown(bare, (), ReportArguments("markdown"))
    named = scene([segment(0, [("allocated", 4)])], *entries)
    assert "by site" in snapshot_markdown(named, (), ReportArguments("markdown"))
