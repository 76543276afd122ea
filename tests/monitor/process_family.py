"""A process and its child, with the sessions and the parents that a test needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LEAF = "import sys; sys.stdin.read()"
"""Code that runs until its standard input closes."""
TREE = """
import subprocess, sys
new_session = sys.argv[1] == "own session"
leaf = subprocess.Popen([sys.executable, "-c", sys.argv[2]], start_new_session=new_session)
print(leaf.pid, flush=True)
if sys.argv[3] == "stays":
    sys.stdin.read()
"""


@contextmanager
def family(
    *, own_session: bool, parent_stays: bool, code: str = LEAF
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a child in a session of its own, like the runner, and a process below it."""
    words = ["own session" if own_session else "same session", code]
    argv = [sys.executable, "-c", TREE, *words, "stays" if parent_stays else "leaves"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        leaf = int(child.stdout.readline())
        if not parent_stays:
            child.wait(60)
        yield child, leaf
