"""What another process works out is what this one would have, whatever becomes of that one."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from tui.snapshots.analysis import Analysis
from tui.snapshots.beside import Beside
from tui.snapshots.load import load
from tui.snapshots.replay import replay

FILE = Path(__file__).parent / "files" / "training.pickle"


def _children() -> list[psutil.Process]:
    return psutil.Process().children()


def test_a_replay_worked_out_beside_is_the_same() -> None:
    for device in Analysis(load(FILE)).devices.values():
        assert Beside(partial(replay, device.device)).get() == device.replay
    assert _children() == []


def test_what_it_raises_is_raised_here() -> None:
    def fails() -> int:
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        Beside(fails).get()
    assert _children() == []


def test_one_that_is_killed_is_worked_out_here() -> None:
    home = os.getpid()

    def dies_elsewhere() -> str:
        if os.getpid() != home:
            os.kill(os.getpid(), signal.SIGKILL)
        return "worked out"

    assert Beside(dies_elsewhere).get() == "worked out"
    assert _children() == []


def test_a_long_answer_waits_for_nobody_to_read_it() -> None:
    beside = Beside(lambda: b"x" * 4_000_000)
    for child in _children():
        deadline = time.monotonic() + 60
        while child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "it is held up until its answer is read"
            time.sleep(0.01)
    assert len(beside.get()) == 4_000_000
