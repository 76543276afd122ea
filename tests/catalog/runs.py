"""Run workloads of the catalogue in this process, and inspect their findings."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import torch

from tests.catalog.brief import BLOCK_S, BRIEF, ROUNDS
from workloads import catalog
from workloads.limits.ceilings import Ceilings
from workloads.measure import timing
from workloads.measure.timing import Control
from workloads.protocol.messages import Budget, Run
from workloads.protocol.results import Cell, RunResult, Setting, Table
from workloads.runner import bench
from workloads.runner.execute import run

assert catalog


@contextmanager
def one_thread() -> Iterator[None]:
    """Use a single thread of torch: on a busy machine, small operations wait for other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def collections_timed() -> Iterator[list[str]]:
    """Yield a list of ``gc.collect`` calls made while a clock runs, with the collector off.

    A collection's time depends on the number of objects in the process, not on the workload.
    """
    genuine, found = gc.collect, []

    def collect(generation: int = 2) -> int:
        if not gc.isenabled():
            found.append("gc.collect")
        return genuine(generation)

    with patch.object(gc, "collect", collect):
        yield found


def ran(name: str, device: str = "cpu", **parameters: Setting) -> RunResult:
    """Return the result of a very short run."""
    return ran_under(Control(), name, parameters, device)


def ran_under(
    control: Control,
    name: str,
    parameters: Mapping[str, Setting],
    device: str = "cpu",
    budget: Budget = "quick",
    ceilings: Ceilings | None = None,
) -> RunResult:
    """Return the result of such a run with the given control and ceilings."""
    request = Run("test", name, device, dict(parameters), {}, budget)
    with (
        one_thread(),
        patch.dict(timing.PLANS, quick=BRIEF, normal=BRIEF),
        patch.object(timing, "SHORT", BRIEF),
        patch.object(timing, "BLOCK_S", BLOCK_S),
        patch.object(bench, "BLOCK_S", BLOCK_S),
        patch.object(bench, "ROUNDS", ROUNDS),
    ):
        return run(request, control, lambda _result: None, cold=False, ceilings=ceilings)


def ok(name: str, **parameters: Setting) -> RunResult:
    """Return the result of such a run on the CPU, which must succeed."""
    result = ran(name, "cpu", **parameters)
    assert (result.status, result.reason) == ("ok", None), result.trace
    return result


def table(result: RunResult, name: str) -> Table:
    """Return one of the result's tables."""
    return next(found for found in result.tables if found.name == name)


def column(result: RunResult, name: str, heading: str) -> list[Cell]:
    """Return a column of one of the result's tables."""
    found = table(result, name)
    place = [each.name for each in found.columns].index(heading)
    return [row[place] for row in found.rows]


def numbers(result: RunResult, name: str, heading: str) -> list[float]:
    """Return a column in which every cell is a number."""
    cells = column(result, name, heading)
    assert all(isinstance(cell, (int, float)) for cell in cells), cells
    return [float(cell) for cell in cells if cell is not None]
