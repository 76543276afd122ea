"""Which rank has failed first is said, and whom its launcher ended then."""

from __future__ import annotations

import pytest

from tests.watch.test_watched_processes import left, oom
from tui.watch.runs.failures import first_failure
from tui.watch.runs.process_logs import ProcessLog

TORCHRUN = ("/usr/bin/torchrun", "--nproc-per-node", "4", "train.py")


def rank(number: int, failed_at: float | None = None, **facts: object) -> ProcessLog:
    ooms = () if failed_at is None else (oom(at=failed_at, handled=False),)
    return left(100 + number, rank=str(number), ooms=ooms, **facts)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([rank(0), rank(1, 5.0, ended=True)], "rank 1 ran out of memory; torchrun ended rank 0"),
        (
            [rank(0), rank(1, 5.0, ended=True), rank(10), rank(2)],
            "rank 1 ran out of memory; torchrun ended ranks 0, 2, 10",
        ),
        (
            [rank(0, 7.0, ended=True), rank(1, 5.0, ended=True)],
            "rank 1 ran out of memory first, rank 0 after it",
        ),
        ([rank(0, ended=True), rank(1, 5.0, ended=True)], "rank 1 ran out of memory"),
        ([rank(0), rank(1)], ""),
        ([left(7, ooms=(oom(at=5.0, handled=False),))], ""),
    ],
)
def test_the_first_rank_and_those_that_were_ended(ranks: list[ProcessLog], said: str) -> None:
    assert first_failure(ranks, TORCHRUN) == said


def test_an_oom_that_was_handled_is_no_failure() -> None:
    went_on = left(7, rank="0", ooms=(oom(at=5.0, handled=True),))
    assert first_failure([went_on, rank(1)], TORCHRUN) == ""


def test_another_launcher_is_named_as_far_as_the_command_tells() -> None:
    ranks = [rank(0), rank(1, 5.0, ended=True)]
    for command, name in (
        (("python", "-m", "torch.distributed.run", "train.py"), "torchrun"),
        (("accelerate", "launch", "train.py"), "accelerate"),
        (("bash", "run.sh"), "the launcher"),
    ):
        assert first_failure(ranks, command).endswith(f"; {name} ended rank 0")
