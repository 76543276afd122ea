"""Torch's text of an OOM in one line; every other reason as it is."""

from __future__ import annotations

import pytest

from tui.runs.state.oom_reason import shorten_oom
from tui.runs.state.result_format import format_end

ASKED = "out of memory: CUDA out of memory. Tried to allocate 16.00 MiB. "
ROOM = "GPU 0 has a total capacity of 23.40 GiB of which 16.80 GiB is free. "
REST = (
    "Of the allocated memory 5.99 GiB is allocated by PyTorch, and 1.37 MiB is reserved by PyTorch "
    "but unallocated. See documentation for Memory Management  (https://docs.pytorch.org/docs)"
)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            f"{ASKED}{ROOM}6.00 GiB allowed; {REST}",
            "out of memory: asked for 16.0 MiB; 6.0 GiB of 6.0 GiB allowed",
        ),
        (f"{ASKED}{ROOM}{REST}", "out of memory: asked for 16.0 MiB; 16.8 GiB of 23.4 GiB free"),
        (ASKED, "out of memory: asked for 16.0 MiB"),
        ("out of memory: Allocation on device 0", "out of memory: Allocation on device 0"),
        ("ValueError: Tried to allocate 1.00 GiB", "ValueError: Tried to allocate 1.00 GiB"),
    ],
)
def test_the_reason_in_a_line(reason: str, words: str) -> None:
    assert shorten_oom(reason) == words
    assert format_end("failed", reason) == f"failed: {words}"
