"""Data loading: who waits for whom, and no worker process that lives on."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

from tests.catalog.runs import column, numbers, ok, ran, ran_under
from workloads.catalog.training.data_loading import CAN_FORK, Costly, Loaders
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.messages import Phase
from workloads.protocol.results import Setting

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="worker processes are forked on Linux only")

LOADING: dict[str, Setting] = {"samples": 16, "batch": 4, "width": 2, "cost_us": 200}


def test_workers_are_tried_and_gone_afterwards() -> None:
    result = ok("data_loading", workers=1, **LOADING)
    assert column(result, "workers", "num_workers")[:3] == [0, 1, 2]
    assert all(0 <= share <= 100 for share in numbers(result, "workers", "waiting for data"))
    assert multiprocessing.active_children() == []


def test_each_worker_makes_as_many_batches_ahead_as_is_asked_for() -> None:
    loaders = Loaders(Costly(torch.arange(10.0), torch.arange(10), 0.0), 4, 5)
    try:
        assert loaders.start(1, pinned=False).prefetch_factor == 5
        # Without workers nothing is made ahead.
        assert loaders.start(0, pinned=False).prefetch_factor is None
    finally:
        loaders.end()
    result = ok("data_loading", workers=1, prefetch=3, **LOADING)
    assert "prefetch_factor=3" in result.tables[0].title


class CancelIn(Control):
    """Cancels at a report of a phase."""

    def __init__(self, phase: Phase, after: int) -> None:
        self._phase = phase
        self._left = after

    def report(self, phase: Phase, *_args: object, **_more: object) -> None:
        if phase == self._phase:
            self._left -= 1
            if self._left < 0:
                raise Cancelled


@pytest.fixture(autouse=True)
def _one_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.catalog.training.data_loading.EPOCHS", 1)


@pytest.mark.parametrize(("phase", "after"), [("warm-up", 0), ("measuring", 1), ("figures", 7)])
def test_a_cancel_ends_the_workers(phase: Phase, after: int) -> None:
    result = ran_under(CancelIn(phase, after), "data_loading", {"workers": 2, **LOADING})
    assert result.status == "cancelled"
    assert multiprocessing.active_children() == []


def test_an_epoch_gives_every_sample_once_and_a_loader_ends_with_its_block() -> None:
    images, labels = torch.arange(10.0), torch.arange(10)
    loaders = Loaders(Costly(images, labels, 0.0), 4)
    kept = loaders.start(1, pinned=False)
    with loaders.started(1, pinned=False) as loader:
        seen = torch.cat([batch for _, batch in loader])
        assert sorted(seen.tolist()) == list(range(10))
        assert len(multiprocessing.active_children()) == 2
    assert len(multiprocessing.active_children()) == 1
    assert len(list(kept)) == 3
    loaders.end()
    assert multiprocessing.active_children() == []


def test_pinned_memory_without_a_gpu_is_skipped_with_the_reason() -> None:
    result = ran("data_loading", memory="pinned")
    assert result.status == "skipped"
    assert "CUDA" in (result.reason or "")
