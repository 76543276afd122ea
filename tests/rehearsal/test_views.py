"""A rehearsal as text and as plain data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.rehearsal.outcomes import CARD, EVENT, GIB, LOG, RUN, account, failed, oom, rehearsed
from tui.rehearsal.report import encode_rehearsal, encode_search
from tui.rehearsal.run import ProcessPeak, Rehearsed, describe_gap
from tui.rehearsal.search import Search, SearchRange
from tui.rehearsal.verdict import judge
from tui.rehearsal.views import (
    Attempt,
    SearchWith,
    account_terms,
    card_lines,
    conclusion_paragraphs,
    largest_batch_line,
    place_line,
    rehearsal_lines,
    search_lines,
    setting_lines,
)
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.model.results import Site
from tui.watch.runs.agent_events import HostRead
from tui.watch.state.explained import explain_without_snapshot

FITS = rehearsed()
MANY = tuple(HostRead("/work/train.py", line, "main", 2) for line in range(1, 6))


def test_an_oom_that_the_program_caught_has_its_account() -> None:
    log = replace(LOG, ooms=(oom(handled=None),), oom_count=1)
    explained = explain_without_snapshot(log.ooms[0], Circumstances(watched=True))
    found = rehearsed(logs=(log,), ooms=((log, explained),))
    verdict = judge(found)
    assert verdict.answer == "unknown"
    text = " ".join(" ".join(rehearsal_lines(found, verdict, (), 80)).split())
    assert f"it caught: {explained.line}" in text
    assert explained.advice[0].what in text
    assert f"it caught: {explained.line}" in conclusion_paragraphs(found, verdict)
    handled = replace(log, ooms=(oom(handled=True),))
    went_on = rehearsed(logs=(handled,), ooms=((handled, explained),))
    assert "it caught" not in "".join(rehearsal_lines(went_on, judge(went_on), (), 80))


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_the_answer_comes_first_and_no_line_is_wider_than_the_terminal(cells: int) -> None:
    log = replace(LOG, rehearsed=replace(EVENT, reads=MANY))
    for found in (FITS, rehearsed(logs=(log,)), failed(signal=11), rehearsed(0)):
        lines = rehearsal_lines(found, judge(found), (), cells)
        assert max(map(len, lines)) <= cells
    lines = rehearsal_lines(FITS, judge(FITS), (), cells)
    assert lines[0].startswith(
        "fits on H100 80 GB: peak 12.0 of 79.1 GiB, headroom 67.1 GiB"[: cells - 20]
    )


def test_the_terms_add_up_to_the_peak() -> None:
    (device,) = judge(FITS).devices
    terms = dict(account_terms(device))
    assert sum(terms.values()) == device.record.peak
    assert terms["parameters"] == 10 * GIB // 4
    assert terms["context"] == 500 << 20


def test_memory_that_torch_did_not_reserve_is_named() -> None:
    peak = ProcessPeak(7, None, account(8 * GIB, reserved_peak=9 * GIB), 3)
    (device,) = judge(rehearsed(peaks=(peak,))).devices
    assert dict(account_terms(device))["outside torch"] == 12 * GIB - (500 << 20) - 9 * GIB


def test_a_peak_without_a_line_of_the_program_names_the_line_before() -> None:
    nowhere = Site("no stack recorded", None, None)
    peak = ProcessPeak(7, "1", account(GIB, site=nowhere, after=FITS.peaks[0].account.site), None)
    assert place_line(peak).startswith("at rank 1, in the backward pass, after train.py:9")


def test_reads_and_host_memory_are_limits() -> None:
    log = replace(LOG, rehearsed=replace(EVENT, reads=MANY))
    found = rehearsed(logs=(log,), host_peak=9 * GIB)
    text = "\n".join(rehearsal_lines(found, judge(found), (), 120))
    assert "train.py:1, train.py:2, train.py:3 and 2 other lines" in text
    assert "9.0 GiB of host memory" in text
    assert "within" not in text.splitlines()[0]


def test_the_margin_stands_beside_what_it_applies_to() -> None:
    def limits(found: Rehearsed) -> str:
        return " ".join(" ".join(rehearsal_lines(found, judge(found), (), 120)).split())

    assert "reserved bytes on the card may differ by 1% (eager)." in limits(FITS)
    (record, *_) = FITS.records
    estimated = replace(FITS, records=(replace(record, estimated=53),))
    assert (
        "reserved bytes on the card may differ by 10% (cuDNN's workspaces are estimates)."
        in limits(estimated)
    )


def test_each_change_has_its_own_line() -> None:
    close = judge(rehearsed(CARD.total * 995 // 1000))
    attempts = [Attempt("expandable segments", judge(FITS)), Attempt("--batch 4", close)]
    lines = rehearsal_lines(FITS, judge(FITS), attempts, 80)
    assert "  with expandable segments: fits, peak 12.0 of 79.1 GiB" in lines
    assert any(line.startswith("  with --batch 4: may not fit") for line in lines)


def test_a_higher_count_than_the_history_has_is_a_problem() -> None:
    (peak,) = FITS.peaks
    assert describe_gap(replace(peak, counted=peak.account.live - 5)) == []
    higher = replace(peak, counted=peak.account.live + GIB)
    (line,) = describe_gap(higher)
    assert "1.0 GiB more" in line
    found = rehearsed(peaks=(higher,), problems=(line,))
    assert line in "".join(rehearsal_lines(found, judge(found), (), 200))
    data = encode_rehearsal(found, judge(found))
    assert data["devices"][0]["processes"][0]["requested_peak"] == higher.counted


def test_a_discarded_history_is_a_problem_even_without_a_gap() -> None:
    (peak,) = FITS.peaks
    (line,) = describe_gap(replace(peak, recorded=False))
    assert "the program ended torch's memory history" in line
    assert "the peak's line is unknown" in line


def test_a_search_names_both_ends() -> None:
    search = Search(SearchRange("batch", 1, 1024), 0, fits=92, fails=93)
    first, second = search_lines(search, "batch", CARD.name, 6, judge(FITS), 80)
    assert first == "largest batch on H100 80 GB: 92 (93 does not fit)"
    (first, _) = search_lines(
        replace(search, is_close=True), "batch", CARD.name, 6, judge(FITS), 80
    )
    assert "92 (93 may not fit)" in first
    nothing = Search(SearchRange("batch", 1, 1024), 0, fails=1)
    assert second == "  with 92: peak 12.0 of 79.1 GiB; 6 rehearsals"
    line, advice = search_lines(nothing, "--batch", "T4", 1, None, 80)
    assert line == "not even --batch=1 fits on T4 (1 rehearsal)"
    assert advice == "  a rehearsal of --batch=1 alone says what it needs"
    assert encode_search("batch", search, 6, ())["largest"] == 92
    (line,) = search_lines(replace(nothing, is_close=True), "--batch", "T4", 1, None, 80)
    assert line == "--batch=1 may not fit on T4, and it is the lowest (1 rehearsal)"


def test_a_search_says_what_settings_would_change() -> None:
    search = Search(SearchRange("batch", 1, 1024), 0, fits=92, fails=93)
    others = [
        SearchWith("expandable segments", search, 2),
        SearchWith("foreach=False", replace(search, fits=1024, fails=None), 5),
        SearchWith("foreach=False", Search(search.range, 0), 1, "failed at 92: ValueError"),
    ]
    assert setting_lines(others, 80) == [
        "  with expandable segments: 92 (93 does not fit); 2 rehearsals",
        "  with foreach=False: 1024 (the end of the range); 5 rehearsals",
        "  with foreach=False: unknown: failed at 92: ValueError; 1 rehearsal",
    ]
    (first, _, last) = encode_search("batch", search, 6, others)["with"]
    assert (first["setting"], first["largest"], first["problem"]) == (others[0].label, 92, None)
    assert last["problem"] == "failed at 92: ValueError"


def test_a_program_that_fits_says_how_to_find_the_largest_batch() -> None:
    assert "put {batch} into the command" in largest_batch_line(FITS)
    command = (*RUN.command, "--batch-size", "8")
    named = replace(FITS, rehearsal=replace(FITS.rehearsal, command=command))
    line = "Largest batch: not searched; add --find, which varies --batch-size"
    assert line in rehearsal_lines(named, judge(named), (), 80)


def test_a_table_of_cards_says_on_which_it_fits() -> None:
    lines = card_lines([("L4", judge(rehearsed(0))), ("H100", judge(FITS))], 80)
    assert lines[0] == "fits on 1 card of 2: H100"
    assert any("used no GPU" in line for line in lines)


def test_plain_data_has_a_reason_for_every_missing_figure() -> None:
    data = encode_rehearsal(FITS, judge(FITS))
    assert json.loads(json.dumps(data))["answer"] == "fits"
    assert data["devices"][0]["processes"][0]["line"] == "train.py:9 main"
    assert list(data["unavailable"]) == ["libraries_not_of_target"]
    nothing = encode_rehearsal(rehearsed(0), judge(rehearsed(0)))
    assert nothing["unavailable"]["devices"] == "the program used no GPU"
    assert RUN.folder.name in data["folder"]


def test_the_page_of_its_run_shows_the_verdict() -> None:
    answer, account_of_peak, limits = conclusion_paragraphs(FITS, judge(FITS))
    assert answer.startswith("fits on H100 80 GB: peak 12.0 of 79.1 GiB")
    assert account_of_peak.startswith(
        "at step 3, train.py:9 main. The peak is parameters 2.5 GiB + "
    )
    assert limits.startswith("Nothing is computed")
    two = replace(FITS, rehearsal=replace(FITS.rehearsal, gpus=2))
    assert conclusion_paragraphs(two, judge(two))[1].startswith("cuda:0 at step 3")
    failure = failed(signal=11)
    assert "failed by itself" in conclusion_paragraphs(failure, judge(failure))[0]


def test_a_failure_after_a_read_may_come_from_the_zeros() -> None:
    def said(*reads: HostRead) -> str:
        log = replace(LOG, kind="AssertionError", rehearsed=replace(EVENT, reads=reads))
        found = rehearsed(run=replace(RUN, code=1), logs=(log,))
        return " ".join(" ".join(rehearsal_lines(found, judge(found), (), 80)).split())

    assert "It had read no device values. On a real card it may not fail if it measures" in said()
    assert "which are zeros here, at train.py:1, train.py:2, train.py:3 and 2 other" in said(*MANY)
    alone = failed(signal=11)
    assert "calls functions that are not simulated" in " ".join(
        rehearsal_lines(alone, judge(alone), (), 80)
    )
    unused = rehearsed(0, run=replace(RUN, code=1))
    assert "may not fail" not in " ".join(rehearsal_lines(unused, judge(unused), (), 80))
