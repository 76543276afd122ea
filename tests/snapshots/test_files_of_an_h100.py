"""Files of three programs that ran out of an H100's memory (docs/readings): their explanations.

``gpu-workbench watch --record`` wrote them, with the agent's inventory; driver 580.159, torch 2.11.
"""

from __future__ import annotations

import pytest

from tests.snapshots.test_real_files import device
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.explain.oom_text import parse_oom_texts

BESIDE = (500 * 2**20, 800 * 2**20)
"""Memory of a CUDA context and its libraries on that card, at least and at most."""
TEXT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total "
    "capacity of 79.18 GiB of which 8.02 GiB is free. Process 3157 has 50.63 GiB memory in use. "
    "Including non-PyTorch memory, this process has 20.51 GiB memory in use. Of the allocated "
    "memory 20.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)
"""The exception of ``other_process``."""


def explanation(name: str, text: str = "") -> Explanation:
    analysis = device(f"h100_{name}")
    return judge(analysis, analysis.replay.ooms[-1], parse_oom_texts(text)).explanation


def test_the_list_that_keeps_each_steps_graph_is_named() -> None:
    explained = explanation("leak")
    assert explained.line == (
        "OOM at step 35, oom_leak.py:11 in train. "
        "Leak: history (list of 35, oom_leak.py:15) grows by 2.1 GiB per step."
    )
    assert explained.advice[0].what.startswith("store detach() or item() of each tensor in history")


def test_a_request_for_a_fifth_of_the_device_is_larger_than_what_was_free() -> None:
    """Attention scores of a batch that is eight times as large as before.

    Pieces of 15 GiB were cached, but the next line would have requested 16 GiB once more.
    """
    explained = explanation("larger_batch")
    assert explained.cause == "larger than what was free"
    assert explained.line.startswith(
        "OOM at step 3, oom_batch.py:13 in forward. Request: 16 GiB in"
    )
    first, second, *_ = [remedy.what for remedy in explained.advice]
    assert first.startswith("use a smaller batch or a shorter sequence at oom_batch.py:13")
    assert second.startswith("allocate a smaller tensor at oom_batch.py:13")


def test_the_process_that_holds_most_of_the_device_is_named() -> None:
    explained = explanation("other_process", TEXT)
    assert explained.cause == "other processes"
    assert "50.6 GiB" in explained.line
    assert "3157" in explained.line


@pytest.mark.parametrize("name", ["leak", "larger_batch"])
def test_what_is_beside_torchs_memory_is_the_size_of_a_context(name: str) -> None:
    # Without the exception's text it may be that of other processes.
    sizes = {row.name: row.bytes for row in explanation(name).account}
    least, most = BESIDE
    assert least < sizes["unknown"] < most
