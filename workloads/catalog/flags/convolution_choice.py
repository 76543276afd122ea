"""How a convolution's algorithm is chosen: once per shape, and deterministically on request."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.flags.convolution_layers import BATCH, CHANNELS, SIZE, Batch, Channels, Size
from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

REPEATS = 5
"""Later calls of a shape, of which the median counts."""
PASSES = 8
"""Backward passes compared bit by bit with the first."""


@workload(
    group="flags",
    title="convolutions of varying shapes",
    about="One convolution on images of several sizes in random order. A size that the process has "
    "not seen must be prepared: cuDNN chooses an algorithm, with benchmark on by trying them; "
    "oneDNN on the CPU builds a kernel. A choice lasts as long as the process, so each run gets a "
    "process of its own, and each setting sizes that no other has used.",
    look_for="First call against later calls. One constant size pays once, and benchmark is worth "
    "it; sizes that keep changing pay every time, and benchmark then makes training slower by far. "
    "Pad or bucket the sizes.",
    devices=("cpu", "cuda"),
    fresh_process=True,
    convolutions="only",
)
def varying_shapes(
    on: Place,
    count: Annotated[int, whole(2, 64, "different sizes")] = 6,
    batch: Annotated[int, whole(1, 1024, "images")] = 1,
    channels: Annotated[int, whole(1, 1024, "channels in and out")] = 32,
    size: Annotated[int, whole(8, 1024, "the smallest height and width, pixels")] = 24,
) -> Case:
    import torch

    from workloads.declare.place import SEED
    from workloads.scripts.varying_shapes import convolve_all

    largest = size + 3 * count
    on.require(8 * count * batch * channels * largest**2, f"images of up to {largest}²")
    weight = on.randn(channels, channels, 3, 3)

    def of_sizes(first: int) -> list[torch.Tensor]:
        images = [on.randn(batch, channels, side, side) for side in range(first, first + count)]
        random.Random(SEED).shuffle(images)
        return images

    images = of_sizes(size)

    timed = partial(convolve_all, images, weight)

    def once(image: torch.Tensor) -> float:
        on.synchronize()
        started = perf_counter()
        convolve_all([image], weight)
        on.synchronize()
        return perf_counter() - started

    def study(study: Study) -> None:
        cudnn = torch.backends.cudnn
        before = cudnn.benchmark
        settings = {"benchmark off": False, "benchmark on": True} if on.type == "cuda" else {}
        study.table(
            "sizes", "first and later calls",
            "setting", "size", ("first call", "s"), ("later calls", "s"), ("first over later", "x"),
        )  # fmt: skip
        try:
            for index, name in enumerate(settings or {"oneDNN": None}):
                if settings:
                    cudnn.benchmark = settings[name]
                _first_and_later(study, name, of_sizes(size + (index + 1) * count), once)
        finally:
            cudnn.benchmark = before

    operations = sum(2 * 9 * channels * image.numel() for image in images)
    return Case(timed, flop=operations, item=count * batch, study=study)


def _first_and_later(
    study: Study, name: str, images: list[torch.Tensor], once: Callable[[torch.Tensor], float]
) -> None:
    firsts, laters = [], []
    for image in images:
        with study.watched():
            first = once(image)
            later = statistics.median(once(image) for _ in range(REPEATS))
        firsts.append(first)
        laters.append(later)
        side = int(image.shape[-1])
        study.row("sizes", name, f"{side} x {side}", first, later, first / later)
    word = name.replace(" ", "_")
    about = "all sizes once, none of them seen before"
    study.figure(f"unseen_{word}", sum(firsts), "s", about)
    study.figure(f"seen_{word}", sum(laters), "s", "the same sizes, seen before")
    ratio = statistics.median(a / b for a, b in zip(firsts, laters, strict=True))
    study.figure(f"first_over_later_{word}", ratio, "x", "median over the sizes")


@contextmanager
def preserve_settings() -> Iterator[None]:
    """Restore the flags of determinism after the block, even after an error."""
    import torch

    cudnn, mkldnn = torch.backends.cudnn, torch.backends.mkldnn
    before = (bool(cudnn.deterministic), bool(mkldnn.deterministic))
    algorithms = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        _choose_backend(*before)
        torch.use_deterministic_algorithms(algorithms, warn_only=warn_only)


def _choose_backend(cudnn: bool, mkldnn: bool) -> None:
    import torch

    # setattr, since the checker treats the modules' properties as plain values.
    setattr(torch.backends.cudnn, "deterministic", cudnn)  # noqa: B010
    setattr(torch.backends.mkldnn, "deterministic", mkldnn)  # noqa: B010


def _choose(backend: bool, algorithms: bool) -> None:
    import torch

    _choose_backend(backend, backend)
    torch.use_deterministic_algorithms(algorithms)


def determinism(device_type: str) -> dict[str, tuple[bool, bool]]:
    """Return the settings by name: determinism of the backend, and of all of torch.

    Args:
        device_type: cpu, whose backend is oneDNN, or cuda.
    """
    backend = "mkldnn" if device_type == "cpu" else "cudnn"
    return {
        "free choice": (False, False),
        f"{backend}.deterministic": (True, False),
        "use_deterministic_algorithms": (True, True),
    }


@workload(
    group="flags",
    title="the same bits each time",
    about="Forward and backward pass of a convolution with the algorithms left free, with "
    "cudnn.deterministic (on the CPU mkldnn.deterministic), and with "
    "torch.use_deterministic_algorithms, which covers every operation and raises where there is "
    "no such algorithm.",
    look_for="Under the two deterministic settings every repeat has the first one's bits, which is "
    "checked; with free choice they may differ, as sums are added up in whatever order the threads "
    "finish, and equality there proves nothing. The speed-up column is the price: often none, on "
    "some shapes a factor of ten.",
    devices=("cpu", "cuda"),
    convolutions="only",
)
def deterministic(
    on: Place,
    batch: Batch = 0,
    channels: Channels = 0,
    size: Size = 0,
) -> Case:
    import torch

    from workloads.declare.place import precision
    from workloads.scripts.deterministic import gradients

    sizes = on.sizes(batch=(batch, BATCH), channels=(channels, CHANNELS), size=(size, SIZE))
    batch, channels, size = sizes.values()
    numbers = batch * channels * size**2
    on.require(4 * (5 * numbers + 3 * 9 * channels**2), "the image, the result and gradients")
    image = on.randn(batch, channels, size, size).requires_grad_()
    weight = on.randn(channels, channels, 3, 3).requires_grad_()
    gradient = on.randn(batch, channels, size, size)

    timed = partial(gradients, image, weight, gradient)

    def differing() -> int:
        """How many of several repeats have other bits than the first."""
        first = timed()
        return sum(
            not all(torch.equal(a, b) for a, b in zip(first, timed(), strict=True))
            for _ in range(PASSES)
        )

    settings = determinism(on.type)
    requested = [name for name, setting in settings.items() if any(setting)]

    def check() -> Check:
        other = 0
        with preserve_settings():
            for name in requested:
                _choose(*settings[name])
                other += differing()
        comparison = f"{PASSES} repeats each under {' and '.join(requested)}, repeats that differ"
        return Check(other == 0, float(other), 0.0, comparison)

    def study(study: Study) -> None:
        def under(name: str) -> Callable[[], object]:
            def call() -> object:
                _choose(*settings[name])
                return timed()

            return call

        with preserve_settings():
            bits = {}
            for name, (backend, algorithms) in settings.items():
                _choose(backend, algorithms)
                bits[name] = differing()
            study.table(
                "settings", "forward and backward pass",
                "setting", ("time", "s"), ("speed-up", "x"), "verdict", "repeats that differ",
            )  # fmt: skip
            for variant in study.compare({name: under(name) for name in settings}):
                study.row(
                    "settings", variant.name, variant.median_s, variant.ratio, variant.verdict,
                    f"{bits[variant.name]} of {PASSES}",
                )  # fmt: skip
            _no_such_algorithm(study, on)

    operations = 3 * 2 * 9 * channels * numbers
    used = precision(on, "float32", "conv")
    return Case(
        timed, flop=operations, precision=used, item=batch, chosen=sizes, check=check, study=study
    )


def _no_such_algorithm(study: Study, on: Place) -> None:
    """Call an operation that has no deterministic algorithm on any device, for its error."""
    import torch

    torch.use_deterministic_algorithms(True)
    index = torch.zeros(1, dtype=torch.int64, device=on.device)
    try:
        on.randn(4).put_(index, on.randn(1))
    except RuntimeError as error:
        study.log_line(f"use_deterministic_algorithms, then put_(): {error}")
    else:
        study.log_line("use_deterministic_algorithms, then put_(): this torch raises nothing")
