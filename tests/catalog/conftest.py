"""The catalogue's runs are made in this process, as a runner's worker makes them in its own."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import workloads.declare.place
from tests.catalog.runs import one_thread

assert workloads.declare.place


@pytest.fixture(scope="session", autouse=True)
def _imported_once() -> None:
    """Like the runner before it forks: what a first run imports is no garbage of any run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Data here is small; a second thread would wait for work by spinning."""
    with one_thread():
        yield
