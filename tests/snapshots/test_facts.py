"""One figure has one wording: on the screen, in Markdown and in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from tests.snapshots.generator import Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tests.snapshots.scenes import oom, scene, segment
from tui.kit.lines import Line, plain
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.report import snapshot_markdown, snapshot_report
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.model.calls import ReportArguments
from tui.snapshots.model.facts import (
    Fact,
    convert_facts,
    list_summary_facts,
    list_verdict_facts,
    select_displayed_facts,
)
from tui.snapshots.views.overview import (
    TWO_COLUMNS_FROM,
    summary_lines,
    verdict_lines,
    verdict_title,
)

WIDE = 400


def at(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data[key]
    return data


def check(facts: Sequence[Fact], screen: Sequence[Line], markdown: str, data: Any) -> None:
    text = "\n".join(plain(row) for row in screen)
    for fact in select_displayed_facts(facts, detail=False):
        assert f"{fact.name} {fact.formatted}" in text
    for fact in select_displayed_facts(facts, detail=True):
        assert f"| {fact.name} | {fact.formatted} |" in markdown
    for fact in facts:
        if fact.path:
            assert at(data, fact.path) == fact.value


def check_device(analysis: Analysis, index: int) -> None:
    device = analysis.devices[index]
    summary = device.summary()
    markdown = snapshot_markdown(analysis, (), ReportArguments("markdown", device=index))
    (data,) = snapshot_report(analysis, (), ReportArguments("json", device=index))["devices"]
    check(list_summary_facts(summary), summary_lines(summary, WIDE), markdown, data)
    for place, event in enumerate(summary.ooms):
        verdict = judge(device, event)
        screen = verdict_lines(verdict, summary, WIDE)
        check(list_verdict_facts(verdict), screen, markdown, data["ooms"][place])


def test_a_verdict_has_one_wording() -> None:
    check_device(scene([segment(1 << 30, [("allocated", 300)])], oom(100, 50)), 0)


def test_an_oom_without_a_history_tells_of_no_other_moment() -> None:
    analysis = scene([segment(1 << 30, [("allocated", 300)])], oom(100, 50))
    summary = analysis.devices[0].summary()
    assert summary.headline == "1 OOM event; 300 MiB live of 300 MiB reserved at the end"
    told = {summary.live_at_start, summary.live_peak, summary.reserved_peak}
    assert told == {None}
    assert "no history was recorded" in summary.unavailable["live_peak"]
    for report in (
        snapshot_markdown(analysis, (), ReportArguments("markdown")),
        "\n".join(plain(row) for row in summary_lines(summary, WIDE)),
    ):
        assert "peak" not in report
        assert "no history was recorded" in report


@pytest.mark.parametrize("cells", [80, TWO_COLUMNS_FROM - 1, TWO_COLUMNS_FROM, 200])
def test_a_wide_verdict_has_the_place_beside_the_account(cells: int) -> None:
    device = scene([segment(1 << 30, [("allocated", 300)])], oom(100, 50)).devices[0]
    verdict, summary = judge(device, 0), device.summary()
    rows = [plain(row) for row in verdict_lines(verdict, summary, cells, explained=False)]
    assert max(map(len, rows)) <= cells
    beside = next(row for row in rows if "Requested at" in row)
    assert (beside.index("Requested at") > 0) == (cells >= TWO_COLUMNS_FROM)
    title = ("OOM on device 0", "event 0 of 1", "2023-11-14 22:13:20 UTC")
    assert verdict_title(verdict, summary) == title
    assert not any(fact in row for fact in title[:2] for row in rows)
    assert ", ".join(title) in plain(verdict_lines(verdict, summary, cells)[0])


@given(SEEDS, OPTIONS)
@settings(max_examples=10, deadline=None)
def test_any_device_has_one_wording(seed: int, options: Options) -> None:
    analysis = analysed(seed, options)[2]
    for index in analysis.devices:
        check_device(analysis, index)


def test_what_is_zero_is_left_out_only_where_its_presence_is_the_news() -> None:
    facts = (
        Fact("a", "a", 0),
        Fact("b", "b", 0, shown="if any"),
        Fact("c.d", "c", None, "count", "in detail"),
        Fact("c.e", "e", 0.25, "share", "as data"),
    )
    assert [fact.formatted for fact in select_displayed_facts(facts, detail=True)] == ["0 B", "n/a"]
    assert [fact.name for fact in select_displayed_facts(facts, detail=False)] == ["a"]
    assert convert_facts(facts) == {"a": 0, "b": 0, "c": {"d": None, "e": 0.25}}
