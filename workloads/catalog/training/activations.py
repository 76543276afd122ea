"""The activations of a training step: stored, recomputed, or moved to the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, Skip, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    from workloads.declare.place import Place

PLAIN, CHECKPOINT, SELECTIVE, ON_CPU = "plain", "checkpoint", "selective", "save_on_cpu"
WAYS = PLAIN, SELECTIVE, CHECKPOINT, ON_CPU

STORED_PER_TOKEN = 18
"""Vectors of the model's width that a block stores for each token: the inputs of both norms, of the
query-key-value product, the output product and the perceptron's first (5), queries, keys and values
(3), the attention's result before its transposition (1), the perceptron's hidden layer before and
after GELU (4 + 4), and 1 for the norms' and the softmax's statistics."""
PASSING = 24
"""Vectors per token that exist for a moment in a block: a recomputation's and gradients."""
DEPTH_FACTOR = 4
"""Consecutive layers increase the error of a single product by this factor."""


@workload(
    group="training",
    title="activation memory: store, recompute or move",
    about="The forward and backward pass of transformer blocks in four ways: plain; each block "
    "checkpointed; selectively checkpointed, where the results of products and attention are "
    "stored and the rest is computed again; and with all stored tensors moved to pinned host "
    "memory (torch.autograd.graph.save_on_cpu).",
    look_for="The curve of time against peak memory: a way is worth its time only if no other has "
    "both a lower peak and a shorter step. Checkpointing repeats a forward pass, about a third of "
    "the step; the selective way repeats only cheap operations. save_on_cpu frees most memory, but "
    "each step moves all activations over PCIe twice, and the weights with them.",
)
def activation_memory(
    on: Place,
    way: Annotated[str, one_of(WAYS, "way of the time on top")] = PLAIN,
    layers: Annotated[int, whole(1, 64, "transformer blocks")] = 4,
    width: Annotated[int, whole(8, 8192, "width of a token's vector")] = 128,
    heads: Annotated[int, whole(1, 128, "heads of the attention, a divisor of the width")] = 4,
    batch: Annotated[int, whole(1, 4096, "sequences")] = 4,
    length: Annotated[int, whole(2, 65_536, "tokens of a sequence")] = 256,
) -> Case:
    import torch

    from workloads.catalog.shared.models import (
        TransformerBlock,
        difference_and_largest,
        gradients,
        peak_memory,
        transformer_flop,
    )
    from workloads.declare.place import SEED, TOLERANCES, attention_precision, relative
    from workloads.scripts.activation_memory import train

    if width % heads:
        raise ParameterError(f"activation_memory: heads={heads}: a divisor of width={width}")
    reasons = _unavailable(on)
    if way in reasons:
        raise Skip(f"{way}: {reasons[way]}")
    tokens = 4 * batch * length * width
    stored = STORED_PER_TOKEN * layers * tokens
    # A block has 12 w² + 13 w weights, with gradients that the check copies twice.
    weights = 4 * layers * (12 * width**2 + 13 * width)
    purpose = f"{layers} blocks and the activations of {batch * length} tokens"
    # autograd stores weights too. torch pins powers of two, less than twice the size.
    moved = 2 * (stored + weights) if ON_CPU not in reasons else 0
    on.require(stored + PASSING * tokens + 4 * weights, purpose, host=moved)
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
    model = model.to(on.device)
    data = on.randn(batch, length, width)

    def timed(way: str = way) -> None:
        train(model, data, way)

    def study(study: Study) -> None:
        calls: dict[str, Callable[[], None]] = {}
        for name in WAYS:
            if name in reasons:
                study.log_line(f"{name}: {reasons[name]}")
            else:
                calls[name] = partial(timed, name)
        _curve(study, calls, partial(peak_memory, on, study))

    def check() -> Check:
        timed()
        plain = gradients(model)
        # The plain way by another path: no checkpoint in the same step.
        timed(CHECKPOINT if way == PLAIN else PLAIN)
        difference = difference_and_largest(plain, gradients(model))
        other = "with each block checkpointed" if way == PLAIN else "of the plain way"
        return relative(*difference, DEPTH_FACTOR * TOLERANCES[used], f"the gradients {other}")

    used = attention_precision(on, "float32")
    return Case(
        timed,
        clock="wall",
        # Recomputing is the price and does not count as work.
        flop=layers * transformer_flop(batch, length, width, heads, backward=True),
        item=batch,
        precision=used,
        check=check,
        study=study,
    )


def _unavailable(on: Place) -> dict[str, str]:
    """Return the ways that do not run on a device, each with its reason."""
    if on.type == "cpu":
        return {ON_CPU: "on the CPU the activations are in host memory already"}
    if on.type == "mps":
        return {ON_CPU: "MPS shares its memory with the host, and torch pins none for it"}
    return {}


def _curve(
    study: Study,
    calls: dict[str, Callable[[], None]],
    peak_of: Callable[[Callable[[], None]], int | None],
) -> None:
    """Add the table of ways, and the curve of time against peak memory."""
    study.table(
        "ways", "time against peak memory",
        "way", ("time", "s"), ("more time", "%"), "verdict", ("peak memory", "byte"),
        ("less memory", "%"), "worth it",
    )  # fmt: skip
    variants = study.compare(calls)
    peaks = {variant.name: peak_of(calls[variant.name]) for variant in variants}
    times = {variant.name: variant.median_s for variant in variants}
    known = {name: peak for name, peak in peaks.items() if peak is not None}
    beaten = dominated(times, known)
    plain = known.get(PLAIN)
    for variant in variants:
        peak = known.get(variant.name)
        saved = None if not plain or peak is None else 100 * (1 - peak / plain)
        better = beaten.get(variant.name)
        worth = None if peak is None else f"no: {better} has both" if better else "yes"
        study.row(
            "ways", variant.name, variant.median_s, 100 * (1 / variant.ratio - 1), variant.verdict,
            peak, saved, worth,
        )  # fmt: skip
    if known:
        study.chart("curve", "time against peak memory", "peak memory, MiB", ("step", "s"))
        for name in sorted(known, key=known.__getitem__):
            study.point("curve", known[name] / 2**20, times[name])
        order = ", ".join(sorted(known, key=known.__getitem__))
        study.mark("curve", f"from the lowest peak: {order}")


def dominated(times: dict[str, float], peaks: dict[str, int]) -> dict[str, str]:
    """Return the ways that another beats in time and peak memory, each with the fastest of those.

    Args:
        times: seconds by way.
        peaks: bytes by way.
    """
    sums = {}
    for name, peak in peaks.items():
        better = [other for other in peaks if times[other] < times[name] and peaks[other] < peak]
        if better:
            sums[name] = min(better, key=times.__getitem__)
    return sums
