"""A file whose keys all have one hash costs a bounded time, and the line says so."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import VARIANT
from tui.snapshots.read import limits
from tui.snapshots.read.limits import estimate_memory
from tui.snapshots.session.snapshot_reader import describe_death
from workloads import ENTRY

MODULUS = sys.hash_info.modulus
"""Python's hash of an integer is its remainder by this."""
IN_A_PROCESS = """
import sys
from tui.snapshots.read.load import load
from tui.snapshots.read.limits import time_limit

with time_limit(0.3):
    load(sys.argv[1])
"""


def colliding_pickle(path: Path, keys: int) -> Path:
    """Write a dict of protocol 4 by hand: creating it would take as long as reading it."""
    pieces = [b"\x80\x04}("]
    for number in range(1, keys + 1):
        value = number * MODULUS
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little")
        pieces.append(b"\x8a" + bytes([len(raw)]) + raw + b"K\x00")
    path.write_bytes(b"".join([*pieces, b"u."]))
    return path


def colliding_json(path: Path, frames: int) -> Path:
    """Frames are made one object where they are equal; the number of a line may be any."""
    stacks = [
        [
            {"filename": "a", "line": number * MODULUS, "name": "f"}
            for number in range(first, first + 1000)
        ]
        for first in range(1, frames + 1, 1000)
    ]
    trace = [
        {"action": "alloc", "addr": at, "size": 512, "stream": 0, "frames": stack}
        for at, stack in enumerate(stacks, 1)
    ]
    path.write_text(json.dumps({"segments": [], "device_traces": [trace]}))
    return path


@pytest.mark.parametrize(
    ("name", "make"), [("c.pickle", colliding_pickle), ("c.json", colliding_json)]
)
@VARIANT
def test_the_process_that_reads_it_is_ended_by_the_signal_of_the_limit(
    tmp_path: Path, name: str, make: object
) -> None:
    assert callable(make)
    # Seconds of comparisons on any machine: keys x keys / 2 of them.
    path = make(tmp_path / name, 30_000)
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, str(path)],
        cwd=Path(ENTRY).parent, check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == -limits.SIGNAL, done.stderr


def test_the_line_names_the_limit_and_the_file() -> None:
    line = describe_death(["/a/b.pickle"], "SIGVTALRM", "", loaded=False)
    assert "/a/b.pickle" in line
    assert "more than 5 s of processor time and 0.25 s for each MB" in line
    assert "damaged or hostile" in line


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 40))
def test_a_larger_file_has_no_less_time(one: int, other: int) -> None:
    def allowed(byte: int) -> float:
        seconds = limits.allowed_s(
            estimate_memory(byte, byte, json=False, available=1 << 50, memory=None)
        )
        assert seconds is not None
        return seconds

    small, large = sorted((one, other))
    assert limits.BASE_S <= allowed(small) <= allowed(large)


def test_a_pipe_has_the_time_of_the_largest_file_that_may_come_and_unknown_has_no_limit() -> None:
    pipe = estimate_memory(0, 0, json=False, available=4 << 30)
    seconds = limits.allowed_s(pipe)
    assert seconds is not None
    assert seconds > limits.BASE_S
    assert limits.allowed_s(replace(pipe, allowed=None)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"), [("c.pickle", colliding_pickle), ("c.json", colliding_json)]
)
def test_the_command_says_so_in_one_line(tmp_path: Path, name: str, make: object) -> None:
    assert callable(make)
    path = make(tmp_path / name, 100_000)
    done = subprocess.run(
        [sys.executable, ENTRY, "tui", "snapshot", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert "s of processor time" in done.stderr
