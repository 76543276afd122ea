"""The comparison of a program with and without the watch finds what differs, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.agent.foreign import compare

PROGRAM = """
import os, sys, time
print(sys.argv, sys.path, sorted(os.listdir()), __file__, time.time())
open("made", "x").close()  # each run has a folder of its own
print("err", os.environ.get("GPU_WORKBENCH_RUN") if "tell" in sys.argv else "", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--here", "--no-screen"])
def test_equal_is_equal_and_a_difference_is_found(how: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", "a"]
    found = compare(command, tmp_path, how, [r"\d+\.\d+\n"])
    assert (found.equal, found.plain.code, found.agents) == (True, 3, 0), found
    assert found.masked >= 1
    assert not compare(command, tmp_path, how).equal  # the time
    assert not compare([*command, "tell"], tmp_path, how, [r"\d+\.\d+\n"]).equal
    assert list(tmp_path.iterdir()) == [tmp_path / "program.py"]
