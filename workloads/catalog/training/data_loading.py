"""Feed a training step from a DataLoader: the number of workers, and who waits for whom."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from workloads.declare.study import Study
from workloads.declare.workload import Case, Skip, one_of, whole, workload
from workloads.protocol import process

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

    Batches = Iterable[Sequence[torch.Tensor]]

EPOCHS = 3
"""Timed epochs for each number of workers, after an untimed one."""
LONGEST_S = 1.0
"""Time after which no further epoch begins."""
CAN_FORK = sys.platform == "linux"
NO_FORK = "worker processes are forked here, which is safe on Linux only"


class Costly:
    """Samples that cost processor time, as decoding and augmenting an image does.

    Args:
        images: the finished samples.
        labels: a class for each.
        cost_s: processor time for making one, seconds.
    """

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, cost_s: float) -> None:
        self._images = images
        self._labels = labels
        self._cost_s = cost_s

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        # By the thread's processor time: a busy machine lengthens this wait as it would lengthen
        # real work.
        end = time.thread_time() + self._cost_s
        while time.thread_time() < end:
            pass
        return self._images[index], self._labels[index]


def kill_with_parent(parent: int, _worker: int) -> None:
    """Kill a DataLoader's worker process when its parent process ends."""
    process.die_with_parent(parent, signal.SIGKILL)


def _shut_down(iterator: Any) -> None:
    """End the workers and threads of a DataLoader's iterator."""
    # Dropping the last reference is the public way, but a traceback may still have one.
    shut_down = getattr(iterator, "_shutdown_workers", None)
    if shut_down is not None:
        shut_down()


class Loaders:
    """DataLoaders of one data set, with the termination of their workers.

    Args:
        dataset: the data to load.
        batch: samples in a batch.
        prefetch: batches that each worker prepares ahead.
    """

    def __init__(self, dataset: Costly, batch: int, prefetch: int = 2) -> None:
        self._dataset = dataset
        self._batch = batch
        self._prefetch = prefetch
        self._iterators: list[Any] = []

    def start(self, workers: int, *, pinned: bool) -> torch.utils.data.DataLoader[Any]:
        """Start a loader whose workers live until :meth:`end`.

        Args:
            workers: processes that make samples; 0 makes them in the loop itself.
            pinned: a thread copies batches to pinned host memory.
        """
        import torch

        data: Any = self._dataset
        loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
            data,
            batch_size=self._batch,
            shuffle=True,
            num_workers=workers,
            pin_memory=pinned,
            persistent_workers=workers > 0,
            prefetch_factor=self._prefetch if workers else None,
            # A fork has torch and the data at once. From Python 3.14 on, it is not the default.
            multiprocessing_context="fork" if workers else None,
            worker_init_fn=partial(kill_with_parent, os.getpid()),
        )
        # With persistent workers every later loop continues this iterator.
        self._iterators.append(iter(loader))
        return loader

    def end(self) -> None:
        """End all workers and threads."""
        while self._iterators:
            _shut_down(self._iterators.pop())

    @contextmanager
    def started(self, workers: int, *, pinned: bool) -> Iterator[torch.utils.data.DataLoader[Any]]:
        """Yield a loader, and end its workers afterwards."""
        loader = self.start(workers, pinned=pinned)
        try:
            yield loader
        finally:
            _shut_down(self._iterators.pop())


@workload(
    group="training",
    title="data loading: workers and pinned memory",
    about="A small CNN is trained from a DataLoader whose samples each cost processor time, as "
    "decoding an image does. With num_workers=0 the training loop makes them itself; worker "
    "processes make them while the step runs. On a GPU also with pinned memory. The share of "
    "waiting is between the end of a step and the start of the next, by the device's clock.",
    look_for="Enough workers hide the cost: waiting falls and samples/s rise until the step itself "
    "is the limit. More workers than free cores take time from the step. prefetch evens out "
    "samples that take longer than others, at the price of memory. A GPU that waits for data is a "
    "common reason for a low utilisation.",
    convolutions="some",
)
def data_loading(
    on: Place,
    workers: Annotated[int, whole(0, 64, "num_workers of the time on top")] = 2,
    memory: Annotated[
        str, one_of(("pageable", "pinned"), "host memory of the time on top")
    ] = "pageable",
    prefetch: Annotated[
        int, whole(1, 64, "batches that each worker makes ahead, prefetch_factor")
    ] = 2,
    cost_us: Annotated[int, whole(0, 1_000_000, "processor time of a sample, µs")] = 300,
    samples: Annotated[int, whole(1, 65_536, "samples of an epoch")] = 384,
    batch: Annotated[int, whole(1, 4096, "samples in a batch")] = 32,
    width: Annotated[int, whole(1, 1024, "channels of the first convolution")] = 8,
) -> Case:
    import torch

    from workloads.catalog.shared.models import cnn_bytes, images_and_labels, small_cnn
    from workloads.scripts.data_loading import train_epoch

    size = 32
    if workers and not CAN_FORK:
        raise Skip(f"{NO_FORK}: set workers=0")
    pinned = memory == "pinned"
    if pinned and on.type != "cuda":
        raise Skip(f"memory=pinned is for copies to a CUDA device, not for {on.type}")
    on.require(
        cnn_bytes(batch, size, width), "the model and a batch", host=samples * 3 * size**2 * 4
    )
    images, labels = images_and_labels(on, samples, size, host=True)
    loaders = Loaders(Costly(images, labels, cost_us * 1e-6), batch, prefetch)
    model = small_cnn(width, device=on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def train(batches: Batches) -> None:
        train_epoch(model, batches, optimizer, on.device)

    loader = loaders.start(workers, pinned=pinned)

    def timed() -> None:
        train(loader)

    def study(study: Study) -> None:
        title = f"{samples} samples of {cost_us} µs each, prefetch_factor={prefetch}"
        _try_workers(study, on, loaders, train, samples=samples, title=title)
        resident = images[:batch].to(on.device), labels[:batch].to(on.device)
        fed = study.time(partial(train, [resident]), "wall")
        about = "the step alone, its data at hand"
        study.figure("rate_without_loading", len(resident[1]) / fed, "samples/s", about)

    return Case(timed, clock="wall", item=samples, study=study, cleanup=loaders.end)


def _try_workers(
    study: Study,
    on: Place,
    loaders: Loaders,
    train: Callable[[Batches], None],
    samples: int,
    title: str,
) -> None:
    study.table(
        "workers", title,
        "num_workers", "host memory", ("rate", "samples/s"), ("waiting for data", "%"),
        ("first epoch", "s"),
    )  # fmt: skip
    study.chart(
        "workers", "throughput over workers, pageable memory", "num_workers",
        ("rate", "samples/s"), ("waiting for data", "%"),
    )  # fmt: skip
    rates: dict[int, float] = {}
    shares: dict[int, float] = {}
    kinds = (False, True) if on.type == "cuda" else (False,)
    for count in worker_counts():
        for pinned in kinds:
            began = time.perf_counter()
            with study.watched(), loaders.started(count, pinned=pinned) as loader:
                _epoch(on, loader, train)
                first = time.perf_counter() - began
                runs: list[tuple[float, float]] = []
                while not runs or (len(runs) < EPOCHS and sum(run[0] for run in runs) < LONGEST_S):
                    study.check_cancelled()
                    runs.append(_epoch(on, loader, train))
            rate = samples / statistics.median([run[0] for run in runs])
            share = 100 * statistics.median([run[1] / run[0] for run in runs])
            where = "pinned" if pinned else "pageable"
            study.row("workers", float(count), where, rate, share, first)
            if not pinned:
                rates[count], shares[count] = rate, share
                study.point("workers", float(count), rate, share)
    best = max(rates, key=rates.__getitem__)
    study.mark(
        "workers",
        f"most samples/s with num_workers={best}: {shares[best]:.0f}% waiting, against "
        f"{shares[0]:.0f}% with 0",
    )
    if not CAN_FORK:
        study.log_line(f"only num_workers=0: {NO_FORK}")


def _epoch(
    on: Place,
    loader: torch.utils.data.DataLoader[Any],
    train: Callable[[Batches], None],
) -> tuple[float, float]:
    """Return the seconds of an epoch, and those between the end of a step and the next start."""
    from workloads.catalog.shared.models import Stopwatch

    watch = Stopwatch(on)
    watch.synchronize()
    begin = end = watch.now()
    waits = []

    def watched() -> Iterator[Sequence[torch.Tensor]]:
        nonlocal end
        for batch in loader:
            waits.append((end, watch.now()))
            yield batch
            end = watch.now()  # the loop asks for the next batch: its step is done

    train(watched())
    watch.synchronize()
    return watch.seconds(begin, end), sum(watch.seconds(*wait) for wait in waits)


def worker_counts() -> tuple[int, ...]:
    """Return the worker counts to try: 0, 1, 2, and 4 and 8 if there are cores for them."""
    if not CAN_FORK:
        return (0,)
    cores = len(os.sched_getaffinity(0))
    return tuple(count for count in (0, 1, 2, 4, 8) if count <= max(2, cores))
