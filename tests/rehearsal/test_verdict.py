"""The answer of a rehearsal, from what was measured."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from tests.rehearsal.outcomes import CARD, EVENT, GIB, LOG, RUN, failed, oom, rehearsed
from tui.rehearsal.printed_error import PrintedError
from tui.rehearsal.run import Rehearsed, find_step
from tui.rehearsal.verdict import judge
from tui.watch.runs.agent_events import HostRead

MAIN = replace(LOG, rehearsed=None)


@pytest.mark.parametrize(
    ("found", "answer", "code", "words"),
    [
        (rehearsed(), "fits", 0, ""),
        (rehearsed(CARD.total * 95 // 100), "fits", 0, "less than 10% of the card"),
        (rehearsed(CARD.total * 995 // 1000), "close", 4, "within 1%"),
        (rehearsed(0), "unknown", 4, "used no GPU"),
        (rehearsed(logs=(MAIN,)), "unknown", 4, "no process reported its peaks"),
        (
            rehearsed(logs=(replace(LOG, ooms=(oom(),), oom_count=1),)),
            "does not fit",
            1,
            "ran out of memory",
        ),
        (
            rehearsed(logs=(replace(LOG, ooms=(oom(handled=True),), oom_count=1),)),
            "fits",
            0,
            "continued after 1 out-of-memory error",
        ),
        # It may have logged the error and returned, with code 0.
        (
            rehearsed(logs=(replace(LOG, ooms=(oom(handled=None),), oom_count=1),)),
            "unknown",
            4,
            "it ran out of memory at train.py:9; the process ended with no optimizer step",
        ),
        (
            rehearsed(
                logs=(replace(LOG, ooms=(oom(handled=None),), kind="RuntimeError", text="x"),),
                run=replace(RUN, code=1),
            ),
            "does not fit",
            1,
            "ran out of memory",
        ),
        (
            rehearsed(
                logs=(replace(LOG, ooms=(oom(handled=True),), kind="KeyError", text="'lr'"),),
                run=replace(RUN, code=1),
            ),
            "failed",
            3,
            "KeyError: 'lr'",
        ),
        (failed(signal=signal.SIGSEGV), "failed", 3, "SIGSEGV"),
        (
            rehearsed(logs=(replace(LOG, kind="KeyError", text="'lr'"),), run=replace(RUN, code=1)),
            "failed",
            3,
            "KeyError: 'lr'",
        ),
        (
            rehearsed(
                logs=(), run=replace(RUN, code=2), printed=PrintedError("train.py: no such option")
            ),
            "failed",
            3,
            "train.py: no such option (exit code 2)",
        ),
    ],
)
def test_each_outcome_has_its_answer(found: Rehearsed, answer: str, code: int, words: str) -> None:
    verdict = judge(found)
    assert verdict.answer == answer
    assert verdict.exit_code == code
    assert words in verdict.reason


def test_an_abort_after_the_programs_end_is_not_its_failure() -> None:
    found = rehearsed(run=replace(RUN, code=None, signal=signal.SIGABRT))
    assert judge(found).answer == "fits"
    found = rehearsed(
        logs=(replace(LOG, kind="ValueError", text="x"),),
        run=replace(RUN, code=None, signal=signal.SIGABRT),
    )
    assert judge(found).answer == "failed"


def test_the_error_of_the_rank_that_failed_first_is_the_program_s() -> None:
    late = replace(LOG, pid=20, rank="0", kind="DistBackendError", text="closed", ended_at=9.0)
    first = replace(LOG, pid=21, rank="1", kind="KeyError", text="'lr'", ended_at=8.0)
    run = replace(RUN, code=1)
    assert judge(rehearsed(run=run, logs=(late, first))).reason == "rank 1: KeyError: 'lr'"
    # torchrun's report names it; one that failed before it used CUDA has no log.
    printed = PrintedError("ValueError: no data", raised=True, rank="2", pid=22, code=1)
    found = rehearsed(run=run, logs=(late, first), printed=printed)
    assert judge(found).reason == "rank 2: ValueError: no data"
    printed = PrintedError(rank="2", pid=22, code=-signal.SIGSEGV)
    found = rehearsed(run=run, logs=(late, first), printed=printed)
    assert judge(found).reason == "rank 2: ended by SIGSEGV"


def test_a_process_that_failed_before_the_others_were_ended_is_the_program_s_failure() -> None:
    own = replace(EVENT, stopped=False)
    lost = replace(LOG, pid=8, kind="EOFError", text="Ran out of input", steps=0, rehearsed=own)
    verdict = judge(rehearsed(logs=(LOG, lost)))
    assert verdict.answer == "failed"
    assert verdict.reason.startswith("process 8: EOFError: Ran out of input (an object that a rank")
    assert "cpu:gloo,cuda:nccl" in verdict.reason
    # At its own end, the program knows of its children's errors.
    whole = replace(LOG, rehearsed=own)
    assert judge(rehearsed(logs=(whole, lost))).answer == "fits"
    other = replace(lost, kind="KeyError", text="'lr'", rank="1")
    assert judge(rehearsed(logs=(LOG, other))).reason == "rank 1: KeyError: 'lr'"


def test_a_host_that_ran_out_of_memory_is_named() -> None:
    run = replace(RUN, code=None, signal=signal.SIGKILL, oom_kills=1)
    verdict = judge(rehearsed(run=run, host_peak=22 * GIB))
    assert verdict.answer == "failed"
    assert "host memory, not the GPU's" in verdict.reason
    assert "it had 22.0 GiB at most" in verdict.reason


def test_a_program_that_was_ended_after_its_time_has_not_failed() -> None:
    found = rehearsed(run=replace(RUN, code=None, signal=signal.SIGKILL), time_is_up=True)
    assert judge(found).answer == "fits"
    early = failed(signal=signal.SIGKILL)
    assert judge(early).answer == "failed"
    verdict = judge(replace(early, time_is_up=True))
    assert (verdict.answer, verdict.exit_code) == ("unknown", 4)
    assert "increase --for" in verdict.reason


def test_a_compiled_program_has_the_wider_margin() -> None:
    log = replace(LOG, rehearsed=replace(EVENT, compiled=True))
    assert judge(rehearsed(CARD.total * 97 // 100, logs=(log,))).answer == "close"
    assert judge(rehearsed(CARD.total * 97 // 100)).answer == "fits"


def test_a_program_with_convolutions_has_the_margin_of_cudnns_workspaces() -> None:
    (record, *_) = rehearsed(CARD.total * 92 // 100).records
    verdict = judge(rehearsed(records=(replace(record, estimated=53),)))
    assert (verdict.answer, verdict.margin.share) == ("close", 0.1)
    assert "within 10% of the card's memory" in verdict.reason
    assert judge(rehearsed(CARD.total * 92 // 100)).answer == "fits"


def test_reads_of_all_processes_are_added_by_line() -> None:
    read = HostRead("/work/train.py", 13, "main", 2)
    logs = tuple(replace(LOG, pid=pid, rehearsed=replace(EVENT, reads=(read,))) for pid in (7, 8))
    assert judge(rehearsed(logs=logs)).reads == (replace(read, count=4),)


def test_the_fullest_device_decides() -> None:
    records = rehearsed(12 * GIB).records + rehearsed(CARD.total * 999 // 1000).records
    verdict = judge(rehearsed(records=records))
    assert [each.index for each in verdict.devices] == [1, 0]
    assert verdict.answer == "close"


@pytest.mark.parametrize(
    ("time_us", "times", "steps", "step"),
    [
        (5, (10, 20), 2, 1),
        (15, (10, 20), 2, 2),
        (25, (10, 20), 2, 3),
        (25, (10, 20), 5, None),
        (None, (10,), 1, None),
        (5, (), 0, None),
    ],
)
def test_a_moment_lies_in_a_step(
    time_us: int | None, times: tuple[int, ...], steps: int, step: int | None
) -> None:
    assert find_step(time_us, times, steps) == step


def test_the_environment_switches_expandable_segments_on_beside_the_users_settings() -> None:
    plan = replace(rehearsed().rehearsal, expandable=True)

    def setting(**inherited: Any) -> str:
        return plan.environment(inherited)["PYTORCH_CUDA_ALLOC_CONF"]

    assert setting() == "expandable_segments:True"
    both = setting(PYTORCH_CUDA_ALLOC_CONF="garbage_collection_threshold:0.8")
    assert both == "garbage_collection_threshold:0.8,expandable_segments:True"
    assert "CUDA_VISIBLE_DEVICES" not in plan.environment({"CUDA_VISIBLE_DEVICES": ""})
