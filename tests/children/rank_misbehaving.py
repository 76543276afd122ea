"""Workloads whose ranks misbehave, as a user's file."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from workloads.declare.workload import Case, Skip, workload


def _rank() -> int:
    return int(os.environ["RANK"])


def _declare(name: str, behaviour: Callable[[], object]) -> None:
    def prepare(_on: object) -> Case:
        def timed() -> object:
            return behaviour()

        return Case(timed, clock="wall")

    prepare.__name__ = name
    workload(group="misbehaving", title=name, about="a.", look_for="l.", ranks=True)(prepare)


def _second_raises() -> None:
    if _rank() == 1:
        print("about to fail [/x]", file=sys.stderr)
        raise RuntimeError("aten::all_reduce went wrong\nsecond line")
    time.sleep(600)


def _second_is_killed() -> None:
    if _rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def _some_milliseconds() -> None:
    """Take a different time on each rank, so that each alone would choose another block count."""
    time.sleep(0.002 * (1 + _rank()))


_declare("second_raises", _second_raises)
_declare("second_is_killed", _second_is_killed)
_declare("never_returns", lambda: time.sleep(600))
_declare("unequal", _some_milliseconds)


@workload(group="misbehaving", title="one lacks", about="a.", look_for="l.", ranks=True)
def second_lacks_something(_on: object) -> Case:
    """Fail on one rank only."""

    def timed() -> object:
        return None

    if _rank() == 1:
        raise Skip("needs more than there is")
    return Case(timed, clock="wall")
