"""The largest batch that fits, by doubling and then bisecting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import MEMORY_COLUMNS, Study
from workloads.declare.tools import MemoryInUse
from workloads.declare.workload import Case, Skip, whole, workload
from workloads.protocol.results import first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

MIB = 2**20
LARGEST = 2**26
"""Samples in the largest batch to try."""
FEATURES, WIDTH = 64, 256
FINE = 16
"""The search ends when this fraction (one in so many) separates the two bounds."""


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """The sizes between which a search ended."""

    fits: int | None
    """Largest size that fits; ``None`` where not even the first does."""
    too_large: int | None
    """Smallest size that does not fit; ``None`` where all do, up to the largest."""


def search(fits: Callable[[int], bool], first: int, largest: int) -> BatchBounds:
    """Find the largest size that fits, to one part in :data:`FINE`.

    Args:
        fits: tries a size; sizes above one that does not fit do not fit either.
        first: the first size to try.
        largest: the end of the search.
    """
    size, good, bad = first, None, None
    while bad is None:
        if not fits(size):
            bad = size
        else:
            good = size
            if size >= largest:
                return BatchBounds(good, None)
            size = min(2 * size, largest)
    if good is None:
        return BatchBounds(None, bad)
    while bad - good > max(1, good // FINE):
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return BatchBounds(good, bad)


@dataclass(frozen=True, slots=True)
class Trial:
    """Measurements of a batch that fits."""

    peak: int
    """Peak bytes of the batch and its step."""
    rate: float
    """Samples per second."""
    memory: MemoryInUse
    """Memory after its steps, with the batch still allocated."""


class Trials:
    """Tries batches and records their measurements.

    Args:
        study: measures, and receives the messages.
        step: a training step with a batch.
        batch_of: creates a batch of a size.
        budget: bytes available to a step; ``None`` where torch itself raises.
        let_go: called after a batch that did not fit.
    """

    def __init__(
        self,
        study: Study,
        step: Callable[..., object],
        batch_of: Callable[[int], tuple[torch.Tensor, ...]],
        budget: int | None,
        let_go: Callable[[], object],
    ) -> None:
        self._study = study
        self._step = step
        self._batch_of = batch_of
        self._budget = budget
        self._let_go = let_go
        self.done: dict[int, Trial] = {}
        """Trials that fit, by size."""

    def fits(self, size: int) -> bool:
        """Return whether a batch of this size fits, found by trying it."""
        import torch

        peak, trial = None, None
        try:
            peak = self._peak(size)
            if peak is not None and (self._budget is None or peak <= self._budget):
                trial = self._timed(size, peak)
        except torch.OutOfMemoryError as error:
            self._study.log_line(f"batch {size}: {first_line(error)}")
        if trial is None:
            self._let_go()
            needs = "" if peak is None else f", a step needs {peak / MIB:.1f} MiB"
            self._study.log_line(f"batch {size}: does not fit{needs}")
            return False
        self.done[size] = trial
        self._study.log_line(f"batch {size}: fits, peak {trial.peak / MIB:.1f} MiB")
        return True

    def _peak(self, size: int) -> int | None:
        """Return the bytes that the batch and its step need."""

        def made_and_used() -> None:
            self._step(*self._batch_of(size))

        peak = self._study.peak(made_and_used)
        least = max((trial.peak for trial in self.done.values()), default=0)
        if peak is not None and self.done and size > max(self.done) and peak < least:
            # It needs at least as much as a smaller one: pages of an earlier step distorted the
            # figure.
            peak = self._study.peak(made_and_used)
        return peak

    def _timed(self, size: int, peak: int) -> Trial:
        """Time only the step, with a batch made beforehand."""
        batch = self._batch_of(size)
        seconds = self._study.time(lambda: self._step(*batch))
        return Trial(peak, size / seconds, self._study.memory_in_use())


def _training(on: Place) -> Callable[..., None]:
    """Return a training step of a small network, for an input and its targets."""
    import torch

    from workloads.declare.place import SEED
    from workloads.scripts.batch_until_oom import train_step

    torch.manual_seed(SEED)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, WIDTH),
        torch.nn.GELU(),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.GELU(),
        torch.nn.Linear(WIDTH, 1),
    ).to(on.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    return partial(train_step, model, optimizer)


def _by_size(study: Study, trials: Sequence[tuple[int, Trial]]) -> None:
    """Add a chart and a table of the batches' measurements, from the smallest on."""
    series = (("peak memory", "byte"), ("rate", "samples/s"))
    study.chart("batches", "one training step over the batch", "batch", *series)
    study.table(
        "held", "what is held after a step of each batch, and what the step needed",
        "batch", ("peak of the step", "byte"), *MEMORY_COLUMNS,
    )  # fmt: skip
    for size, trial in trials:
        study.point("batches", size, trial.peak, trial.rate)
        study.memory_row("held", trial.memory, float(size), trial.peak)


def _report(study: Study, ended: BatchBounds, trials: Trials, where: str) -> None:
    sizes = sorted(trials.done)
    _by_size(study, [(size, trials.done[size]) for size in sizes])
    if ended.fits is None:
        study.absent("largest_batch", f"not even a batch of {ended.too_large} fits into {where}")
        return
    about = f"that fits into {where}, to one part in {FINE}"
    study.figure("largest_batch", float(ended.fits), "samples", about)
    if ended.too_large is None:
        study.absent("too_large", f"all batches up to {LARGEST} fit into {where}", "samples")
    else:
        about = "the smallest batch that did not fit"
        study.figure("too_large", float(ended.too_large), "samples", about)
    best = max(sizes, key=lambda size: trials.done[size].rate)
    study.mark("batches", f"{where} hold a batch of {ended.fits}; the rate is highest at {best}")
    if len(sizes) > 1:
        low, high = sizes[0], sizes[-1]
        slope = (trials.done[high].peak - trials.done[low].peak) / (high - low)
        study.figure("per_sample", slope, "byte", f"of memory, from batch {low} to {high}")


@workload(
    group="memory",
    title="batch size until memory ends",
    about="Training steps of a small network with ever larger batches: doubled until memory runs "
    "out, then bisected. On CUDA it ends with a real OutOfMemoryError at a stated share of the "
    "device (set_per_process_memory_fraction), on the CPU at a stated budget, so that other "
    "programs are not affected. Timed is a step at the first batch.",
    look_for="Memory grows nearly in a straight line: a fixed part (weights, gradients, optimizer) "
    "and a part per sample (activations), so two measurements predict the rest within a fifth. "
    "Samples per second stop growing long before memory ends: the largest batch is seldom the one "
    "you want. In the table, allocated is back at the weights and the batch after the step, while "
    "reserved and with it NVML's figure stay near what the step needed.",
)
def batch_until_oom(
    on: Place,
    batch: Annotated[int, whole(1, LARGEST, "samples to begin with")] = 512,
    mib: Annotated[int, whole(16, 65_536, "budget on the CPU, MiB")] = 64,
    percent: Annotated[int, whole(1, 95, "share of the device's memory on a GPU, %")] = 20,
) -> Case:
    import torch

    if on.type == "mps":
        raise Skip("MPS takes its memory from the system's: there is no end to find safely")
    budget = mib * MIB if on.type == "cpu" else None
    if budget is not None:
        # A step is tried before it is known to be too large: at most twice what fits.
        on.require(3 * budget, f"twice the budget of {mib} MiB")
    step = _training(on)

    def batch_of(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return on.randn(size, FEATURES), on.randn(size, 1)

    inputs, targets = batch_of(batch)

    def timed() -> None:
        step(inputs, targets)

    def study(study: Study) -> None:
        if study.peak(timed) is None:
            study.absent("largest_batch", "this C library does not report the peak of a call")
            return
        if budget is None:
            torch.cuda.set_per_process_memory_fraction(percent / 100, on.device)
        trials = Trials(study, step, batch_of, budget, on.empty_cache)
        ended = search(trials.fits, batch, LARGEST)
        _report(study, ended, trials, f"{mib} MiB" if budget else f"{percent}% of the device")

    def cleanup() -> None:
        if on.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0, on.device)

    return Case(timed, clock="wall", item=batch, study=study, cleanup=cleanup)
