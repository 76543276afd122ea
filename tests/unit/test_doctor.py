"""What doctor prints: equal findings of several GPUs once, with their indices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.screens.helpers import (
    GIB,
    MIB,
    environment,
    gpu,
    gpu_process,
    sample,
    torch_gpu,
    uuid,
)
from tui.allocators import process_files
from tui.core.text.commands import EXAMPLE
from tui.doctor.checks import (
    CONTEXT_BYTES,
    CheckResult,
    answer_line,
    as_text,
    driver_findings,
    encode_check,
    format_indices,
    pairing_findings,
    room_findings,
    watch_finding,
    worst_outcome,
)
from tui.monitor.messages import Device, DeviceMemory


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["cuda:0"], "cuda:0"),
        ([f"cuda:{index}" for index in range(8)], "cuda:0-7"),
        (["nvml:6", "nvml:0", "nvml:1"], "nvml:0-1,6"),
        (["cuda:0", "nvml:1"], "cuda:0, nvml:1"),
        (["mps", "cuda:1"], "mps, cuda:1"),
        ([], ""),
    ],
)
def test_indices(names: list[str], shown: str) -> None:
    assert format_indices(names) == shown


def test_an_equal_finding_of_eight_gpus_is_one_line() -> None:
    seen = sample(*(gpu(index) for index in range(8)))
    found = pairing_findings(seen, environment(*(torch_gpu(index) for index in range(8))))
    assert [finding.key for finding in found] == [uuid(index) for index in range(8)]
    assert as_text(found) == "passed   device         cuda:0-7: NVIDIA H200\n"


def test_gpus_that_torch_does_not_see_are_told_together_and_apart_from_the_others() -> None:
    found = pairing_findings(sample(*(gpu(index) for index in range(4))), environment(torch_gpu()))
    rows = as_text(found).splitlines()
    assert rows[0].startswith("warning  device         nvml:1-3: NVIDIA H200: not among the ")
    assert rows[2] == f"passed   device         cuda:0: NVIDIA H200 ({uuid(0)})"
    assert len(rows) == 3


def test_lost_gpus_are_named_by_their_index() -> None:
    text = as_text(driver_findings(sample(gpu(0, lost="Xid 79"), gpu(1), gpu(2, lost="Xid 79"))))
    assert "failed   device         nvml:0,2: NVIDIA H200 is lost: Xid 79" in text
    assert "3 devices" in text


def test_findings_that_are_of_no_gpu_are_told_each_for_itself() -> None:
    assert as_text(
        [CheckResult("torch", "passed", "2.9"), CheckResult("CUDA", "warning", "none", "x")]
    ) == ("warning  CUDA           none\n" + " " * 24 + "→ x\npassed   torch          2.9\n")


PASSED = CheckResult("torch", "passed", "2.9")
WARNED = CheckResult("CUDA", "warning", "none", "x")
FAILED = CheckResult("memory", "failed", "full", "y", device="nvml:0", key="u")


@pytest.mark.parametrize(
    ("findings", "answer", "outcome"),
    [
        ([PASSED], "All checks passed", "passed"),
        ([PASSED, WARNED], "No check failed; 1 warning: CUDA", "warning"),
        (
            [WARNED, PASSED, FAILED, replace(FAILED, key="v")],
            "1 check failed: memory; 1 warning: CUDA",
            "failed",
        ),
    ],
)
def test_the_first_line_answers(findings: list[CheckResult], answer: str, outcome: str) -> None:
    assert answer_line(findings) == answer
    assert worst_outcome(findings) == outcome


def test_a_finding_of_no_gpu_names_no_device() -> None:
    assert encode_check(PASSED) == {
        "name": "torch", "outcome": "passed", "found": "2.9", "advice": ""
    }  # fmt: skip
    assert encode_check(FAILED)["device"] == "nvml:0"


def with_free(free: int | None, **changes: object) -> Device:
    total = 80 * GIB
    used = None if free is None else total - free - 600 * MIB
    return gpu(0, memory=DeviceMemory(total, used, free, 600 * MIB), **changes)


def test_a_full_gpu_fails_the_check_and_names_who_holds_it() -> None:
    rows = tuple(gpu_process(100 + index, index * GIB) for index in range(5))
    (finding,) = room_findings(sample(with_free(99 * MIB, processes=rows)))
    assert finding.outcome == "failed"
    assert finding.found == (
        "NVIDIA H200 is full: 99.0 MiB of 80.0 GiB are free, held by 5 processes "
        "(pid 104, pid 103, pid 102)"
    )
    assert "context" in finding.advice


@pytest.mark.parametrize(
    ("processes", "words"),
    [((), "held by no process that NVML lists"), (None, "are free")],
)
def test_a_full_gpu_whose_processes_are_not_known_says_what_is_known(
    processes: tuple[()] | None, words: str
) -> None:
    (finding,) = room_findings(sample(with_free(0, processes=processes)))
    assert finding.found.endswith(words)


@pytest.mark.parametrize("free", [CONTEXT_BYTES, 79 * GIB, None])
def test_a_gpu_with_room_for_a_process_or_of_unknown_memory_is_not_called_full(
    free: int | None,
) -> None:
    assert room_findings(sample(with_free(free))) == []


@pytest.mark.parametrize(
    ("scope", "may_trace", "outcome"),
    [
        ("0", False, "passed"),
        ("1", True, "passed"),
        ("1", False, "warning"),
        ("2", False, "warning"),
        ("3", True, "warning"),
    ],
)
def test_whether_training_that_runs_may_be_read_and_what_explains_an_oom(
    scope: str, may_trace: bool, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(process_files, "_SCOPE", tmp_path / "scope")
    monkeypatch.setattr(process_files, "_may_trace", lambda: may_trace)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    finding = watch_finding(process_files.refusal_of_running())
    assert finding.outcome == outcome
    # Either way the command is named that needs no such right.
    assert EXAMPLE in finding.found + finding.advice
    assert (f"ptrace_scope is {scope}" in finding.found) is (outcome == "warning")


def test_without_proc_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_files, "PROC", tmp_path)
    assert "Linux's /proc" in watch_finding(process_files.refusal_of_running()).found
