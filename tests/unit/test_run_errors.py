"""The status and the reason of a run whose workload raised an exception."""

from __future__ import annotations

import pytest
import torch

from workloads.declare.workload import Skip
from workloads.measure.timing import Cancelled
from workloads.protocol.results import OUT_OF_MEMORY
from workloads.runner.reporting import outcome


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("nothing is left"), ("failed", f"{OUT_OF_MEMORY}nothing is left")),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"),
            ("failed", f"{OUT_OF_MEMORY}CUDA out of memory. Tried to allocate 2.00 GiB."),
        ),
        (ZeroDivisionError("division by zero"), ("failed", "ZeroDivisionError: division by zero")),
        (SystemExit(3), ("failed", "it called sys.exit with exit status 3")),
        (SystemExit("no data"), ("failed", "it called sys.exit with the message no data")),
        (Skip("needs two GPUs"), ("skipped", "needs two GPUs")),
        (Cancelled(), ("cancelled", "before the first block")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_gives_a_status_and_one_line(
    error: BaseException, expected: tuple[str, str]
) -> None:
    """Given any exception of a workload, the reason is one line that names it."""
    assert outcome(error, "cpu") == expected
