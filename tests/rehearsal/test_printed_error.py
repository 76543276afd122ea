"""The error that a program's output ends with, also behind a launcher's report."""

from __future__ import annotations

import pytest

from tui.rehearsal.printed_error import PrintedError, find_error

REPORT = """\
W1125 22:23:39.063000 16574 torch/distributed/elastic/multiprocessing/api.py:1028] Sending SIGTERM
E1125 22:23:39.081000 16574 torch/distributed/elastic/x.py:1] failed (exitcode: {code}) (pid: 21)
Traceback (most recent call last):
  File "/lib/torch/distributed/run.py", line 1032, in <module>
    main()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:{space}
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 20)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_22:23:39
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 21){space}
  error_file: <N/A>
============================================================
"""


def behind_torchrun(own: str, code: int = 1) -> PrintedError:
    """Return what is found in a rank's output and torchrun's report after it."""
    report = REPORT.replace("{code}", str(code)).replace("{space}", " ")
    return find_error((own + report).splitlines())


def test_the_last_line_is_the_error_of_a_program_without_a_launcher() -> None:
    assert find_error(["a", "train.py: no such option", "", "-----"]).line == (
        "train.py: no such option"
    )
    assert find_error([]) == PrintedError()


@pytest.mark.parametrize(
    ("own", "line", "raised"),
    [
        (
            "Traceback (most recent call last):\n  x\nValueError: no data\n",
            "ValueError: no data",
            True,
        ),
        ("loading\nno data at /data\n", "no data at /data", False),
        ("[rank0]:[W1125 1:2:3.4 ProcessGroupNCCL.cpp:1] no destroy\n", "", False),
        (
            "[rank1]: Traceback (most recent call last):\n[rank1]:   x\n[rank1]: KeyError: 'lr'\n"
            "[rank0]: Traceback (most recent call last):\n[rank0]:   x\n"
            "[rank0]: torch.distributed.DistBackendError: connection closed\n",
            "KeyError: 'lr'",
            True,
        ),
    ],
    ids=["raises", "exits", "only warns", "others fail after it"],
)
def test_the_rank_that_failed_first_is_found_before_the_report(
    own: str, line: str, raised: bool
) -> None:
    assert behind_torchrun(own) == PrintedError(line, raised, "1", 21, 1)


def test_a_rank_ended_by_a_signal_has_no_line() -> None:
    assert behind_torchrun("UserWarning: old\n", -11) == PrintedError("", False, "1", 21, -11)


def test_an_error_before_that_of_a_launcher_is_the_program_s() -> None:
    lines = [
        *("Traceback (most recent call last):", "  x", "KeyError: 'lr'"),
        *("Traceback (most recent call last):", "  x"),
        "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.",
    ]
    assert find_error(lines) == PrintedError("KeyError: 'lr'", raised=True)
    assert find_error(lines[3:]).line == lines[-1]
