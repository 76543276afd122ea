"""Make the catalogue's runs in this process, in the way of a runner's worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch._dynamo  # before the first module's objects are excluded from garbage collection

import workloads.declare.place
from tests.catalog.runs import one_thread

assert workloads.declare.place
assert torch._dynamo


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread: for small data, a second one would only spin."""
    with one_thread():
        yield
