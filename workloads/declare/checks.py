"""Hold a result against the same computed on the CPU in float64."""

from __future__ import annotations

import math

import torch

from workloads.protocol.results import Check

TOLERANCES = {
    "float64": 1e-12,
    "float32": 1e-4,
    "3xtf32": 1e-4,
    "tf32": 5e-3,
    "float16": 5e-3,
    "bfloat16": 4e-2,
}
"""By precision, of a product's largest error over its largest entry: the unit round-off times a
small multiple that covers the growth over sums of up to 65 536 terms with random signs."""


def against_float64(
    result: torch.Tensor, reference: torch.Tensor, tolerance: float, what: str
) -> Check:
    """The largest difference over the largest entry of the reference.

    Args:
        result: of any device and precision.
        reference: float64, on the CPU, of the same shape.
        tolerance: of the relative error.
        what: was compared, for the reader.
    """
    difference = (result.detach().cpu().double() - reference).abs().max()
    return relative(float(difference), float(reference.abs().max()), tolerance, what)


def relative(difference: float, largest: float, tolerance: float, what: str) -> Check:
    """A difference over the largest entry of the reference.

    A reference that is zero everywhere is met by a device that computes nothing, so it passes
    nobody.

    Args:
        difference: from the reference, the largest.
        largest: entry of the reference, by its absolute value.
        tolerance: of the relative error.
        what: was compared, for the reader.
    """
    error = ratio(difference, largest)
    known = math.isfinite(error)
    told = what if largest else f"{what}, which is zero everywhere"
    return Check(known and error <= tolerance, error if known else None, tolerance, told)


def ratio(difference: float, largest: float) -> float:
    """A difference over the largest entry of what it is from; not a number where that is zero."""
    return difference / largest if largest else math.nan
